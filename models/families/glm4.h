/* glm4.h - what GLM-4 and the text half of GLM-4.1V have in common, and GLM-4.1V and its kin with experts. */
#ifndef SAC_MODELS_GLM4_H
#define SAC_MODELS_GLM4_H

#include "config.h"

struct sac_mmproj;

/* The decoder's keys, as they stand in text_config too; c holds defaults. */
sac_status sac_glm4_read(sac_model_config *c, const json_t *object, sac_error *err);

typedef sac_status (*sac_glm4v_half_fn)(sac_model_config *c, const json_t *half, sac_error *err);

/* Of GLM-4.1V and its kin: what they have beside the language model, without a configuration; and config.json, whose
 * text_config is of the type `text_type` and read by read_text, and whose vision_config is read by read_tower. */
void sac_glm4v_defaults(sac_model_config *c);
sac_status sac_glm4v_read(sac_model_config *c, const json_t *config, const char *text_type, sac_glm4v_half_fn read_text,
                          sac_glm4v_half_fn read_tower, sac_error *err);
/* GLM-4.1V's vision_config; and what those of its kin have in common, `out`: out_hidden_size where no key says it. c has the width of
 * the tower's MLPs and of the merger's. */
sac_status sac_glm4v_read_own_tower(sac_model_config *c, const json_t *vision, sac_error *err);
sac_status sac_glm4v_read_tower(sac_model_config *c, const json_t *vision, int out, sac_error *err);
/* Of their vision halves in GGUF. */
sac_status sac_glm4v_mmproj(struct sac_mmproj *p, sac_error *err);

#endif
