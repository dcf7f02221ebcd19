/* channel_scales.h - how much the columns of matrices are scaled before they are rounded, their inputs being divided by as much: Lin
 * et al. 2023, AWQ (arXiv:2306.00978, section 3.2): s = (mean |x|)^alpha for each channel, alpha by a grid of the outputs' error. The
 * error is that which is left after error feedback (gptq.h), so a scale is taken only for what it adds to that. */
#ifndef SAC_MODELS_CHANNEL_SCALES_H
#define SAC_MODELS_CHANNEL_SCALES_H

#include "gptq.h"

enum { SAC_CHANNEL_GRID = 20 }; /* alpha = i / 20, i = 0 to 19 */

typedef struct sac_channel_choice {
    int alpha;            /* of the grid; 0: scales of 1 */
    double before, after; /* loss without and with */
} sac_channel_choice;

/* w [n][k]: rows of the matrices that share the inputs, or a sample of them; they stay. magnitude [k]: mean |x|, taken as a
 * thousandth of their mean at least, the same where scales
 * have to be the same. s [k]: receives the scales, the root of the largest times the smallest being 1. g->s is not looked at. NO_MEMORY. */
sac_status sac_channel_scales(const sac_gptq *g, const double *magnitude, const float *w, int64_t n, float *s, sac_channel_choice *choice,
                              sac_pool *pool, sac_error *err);

#endif
