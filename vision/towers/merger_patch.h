/* merger_patch.h - Qwen2-VL's PatchMerger: norm, the features of a square side by side, linear, GELU, linear
 * (arXiv:2409.12191, sec. 2.1): its weights, for tests too. */
#ifndef SAC_VISION_MERGER_PATCH_H
#define SAC_VISION_MERGER_PATCH_H

#include "merger.h"

typedef struct sac_merger_patch_weights {
    const float *norm_w, *norm_b; /* [in], of joined features [joins * in]; norm_b NULL: RMS norm */
    sac_weight fc1, fc2;          /* [joins * in][joins * in], [out][joins * in] */
    const float *fc1_bias, *fc2_bias;
} sac_merger_patch_weights;

#endif
