/* gemma.h - what the text models of Gemma 2 and Gemma 3 have in common. */
#ifndef SAC_MODELS_GEMMA_H
#define SAC_MODELS_GEMMA_H

#include "config.h"

/* Defaults of both, without those of the decoder: the gate, the tied head, what ends an answer. */
void sac_gemma_defaults(sac_model_config *c);

/* Reads the decoder; without "layer_types" every `pattern`-th layer is full and the others slide. `object` holds one rope
 * only, as other families have it. */
sac_status sac_gemma_read(sac_model_config *c, const json_t *object, int pattern, sac_error *err);

/* GGUF's keys of both: of `pattern` layers the last is full; a model of `large` layers scales scores by hidden / heads, as
 * llama.cpp has it, others by the size of a head, unless attention.scale says otherwise. */
sac_status sac_gemma_read_gguf(sac_model_config *c, const json_t *keys, int pattern, int large, sac_error *err);
sac_status sac_gemma_write_gguf(const sac_model_config *c, json_t *keys, int pattern, int large, sac_error *err);

#endif
