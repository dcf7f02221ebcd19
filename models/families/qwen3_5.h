/* qwen3_5.h - what Qwen3.5, its kin with experts and Qwen3-Next share. */
#ifndef SAC_MODELS_QWEN3_5_H
#define SAC_MODELS_QWEN3_5_H

#include "family.h"

/* The keys of the language model but those of its experts: c holds the defaults of sac_family_qwen3_5_text, or others
 * (qwen3_5_text.c). */
sac_status sac_qwen3_5_read_text(sac_model_config *c, const json_t *object, sac_error *err);
/* The same of GGUF, whose common keys are read (qwen35). */
sac_status sac_qwen3_5_read_gguf(sac_model_config *c, const json_t *keys, sac_error *err);
/* "shared_expert_intermediate_size": of the MLP beside a layer's experts, which has a gate (qwen3_5_moe_text.c). */
sac_status sac_qwen3_5_read_shared(sac_model_config *c, const json_t *object, sac_error *err);
/* What no key of a vision half in GGUF says (qwen3_5.c). */
sac_status sac_qwen3_5_mmproj(sac_mmproj *p, sac_error *err);
/* Keys that both halves of Qwen3.5 have beside them (qwen3_5.c): ids of tokens. */
void sac_qwen3_5_token_defaults(sac_model_config *c);

#endif
