/* merger_smolvlm.h - Idefics3's connector (arXiv:2408.12637, sec. 3.2): the tower's last norm, the features of a square side
 * by side (pixel shuffle), one linear layer: its weights, for tests too. */
#ifndef SAC_VISION_MERGER_SMOLVLM_H
#define SAC_VISION_MERGER_SMOLVLM_H

#include "merger.h"

typedef struct sac_merger_smolvlm_weights {
    const float *norm_w, *norm_b; /* [in] */
    sac_weight fc;                /* [out][joins * in], the square's features row by row */
} sac_merger_smolvlm_weights;

#endif
