/* glm4.h - what GLM-4 and the text half of GLM-4.1V have in common, and GLM-4.1V and its kin with experts. */
#ifndef SAC_MODELS_GLM4_H
#define SAC_MODELS_GLM4_H

#include "config.h"

struct sac_mmproj;

/* The decoder's keys, as they stand in text_config too; c holds defaults. */
sac_status sac_glm4_read(sac_model_config *c, const json_t *object, sac_error *err);

/* Of GLM-4.1V and its kin: what they have beside the language model, without a configuration; and config.json, whose
 * text_config is of the type `text_type` and read by read_own. */
void sac_glm4v_defaults(sac_model_config *c);
sac_status sac_glm4v_read(sac_model_config *c, const json_t *config, const char *text_type,
                          sac_status (*read_own)(sac_model_config *c, const json_t *text, sac_error *err),
                          sac_error *err);
/* Of their vision halves in GGUF. */
sac_status sac_glm4v_mmproj(struct sac_mmproj *p, sac_error *err);

#endif
