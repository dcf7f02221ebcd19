/* language_tensors.h - tensors of language models in GGUF as the families' YAML has them, where llama.cpp's converter has others. */
#ifndef SAC_MODELS_LANGUAGE_TENSORS_H
#define SAC_MODELS_LANGUAGE_TENSORS_H

#include "checkpoint.h"
#include "decoder.h"

/* Adds to c, which is sealed before and after, of each layer
 *   of latent attention   attn_kv_b of attn_k_b, whose heads are turned round, and attn_v_b; attn_q_b of attn_q where queries have
 *                         no latent;
 *   of linear attention   ssm_beta and ssm_alpha of ssm_ba, and in files of 2025 attn_qkv and attn_gate of ssm_in, which have the
 *                         rows of a key head together.
 * Blocks of attn_k_b and attn_v_b become f16, f32 where either is f32; what is there under its own name stays, what others are
 * made of goes. BAD_FILE for other shapes. `joined` gets the entries of latent attention that went, and that came: a table alone,
 * to be freed. */
sac_status sac_language_tensors_shape(sac_checkpoint *c, const sac_decoder_config *d, sac_checkpoint *joined, sac_error *err);
/* Once the model is bound, which reads copies of these matrices (bind_latent.c): what was joined is freed, and the file's own entries
 * stand in its place. */
sac_status sac_language_tensors_part(sac_checkpoint *c, const sac_checkpoint *joined, sac_error *err);

#endif
