/* glm4.h - what GLM-4 and the text half of GLM-4.1V have in common. */
#ifndef SAC_MODELS_GLM4_H
#define SAC_MODELS_GLM4_H

#include "config.h"

/* The decoder's keys, as they stand in text_config too; c holds defaults. */
sac_status sac_glm4_read(sac_model_config *c, const json_t *object, sac_error *err);

#endif
