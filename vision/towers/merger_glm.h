/* merger_glm.h - GLM-4.1V's merger: its weights, for tests too. */
#ifndef SAC_VISION_MERGER_GLM_H
#define SAC_VISION_MERGER_GLM_H

#include "merger.h"

typedef struct sac_merger_glm_weights {
    sac_weight join;              /* [out][joins * in], of the features of a square side by side */
    sac_weight fc;                /* [out][out] */
    sac_weight gate, up, down;    /* [width][out] twice, [out][width] */
    const float *join_bias;       /* [out] */
    const float *norm_w, *norm_b; /* [out] */
} sac_merger_glm_weights;

#endif
