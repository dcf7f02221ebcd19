/* deepseek.h - what DeepSeek-V2 and DeepSeek-V3 share. */
#ifndef SAC_MODELS_DEEPSEEK_H
#define SAC_MODELS_DEEPSEEK_H

#include "family.h"

/* The keys of the language model but those of its experts: latent attention (llm/latent_attention.h). c holds the defaults
 * (deepseek_v3.c). */
sac_status sac_deepseek_read(sac_model_config *c, const json_t *config, sac_error *err);

#endif
