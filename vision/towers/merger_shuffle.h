/* merger_shuffle.h - InternVL's projector (arXiv:2404.16821, sec. 3.1): pixel shuffle, norm, linear, GELU, linear: its
 * weights, for tests too.
 *
 * Pixel shuffle puts the features of a square side by side, line by line of the square (transformers'
 * InternVLModel.pixel_shuffle; "ps_version" v2). They come in squares, so that is a view of them. */
#ifndef SAC_VISION_MERGER_SHUFFLE_H
#define SAC_VISION_MERGER_SHUFFLE_H

#include "merger.h"

typedef struct sac_merger_shuffle_weights {
    const float *norm_w, *norm_b; /* [joins * in] */
    sac_weight fc1, fc2;          /* [hidden][joins * in], [out][hidden] */
    const float *fc1_bias, *fc2_bias;
} sac_merger_shuffle_weights;

#endif
