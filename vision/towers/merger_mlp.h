/* merger_mlp.h - linear, GELU, linear (LLaVA-1.5, sec. 3): its weights, for tests too. */
#ifndef SAC_VISION_MERGER_MLP_H
#define SAC_VISION_MERGER_MLP_H

#include "merger.h"

typedef struct sac_merger_mlp_weights {
    sac_weight fc1, fc2;              /* [hidden][in], [out][hidden] */
    const float *fc1_bias, *fc2_bias; /* NULL where absent */
} sac_merger_mlp_weights;

#endif
