/* fold.h - scales of a matrix's inputs (channel_scales.h), and where what divides the inputs goes: into the norm before q, k and v, and
 * before gate and up; into the rows of v for o, where heads that share a value head share its scales; into the rows of up for down. */
#ifndef SAC_CALIBRATION_FOLD_H
#define SAC_CALIBRATION_FOLD_H

#include "layer.h"

/* Chooses the scales of inputs i, whose sums have been factored, and notes what becomes of the others. Inputs whose divisors go into
 * rows of another matrix come before that matrix is rounded; with these, it must not be. Nothing where the layer has no place for them,
 * or no scales lower the loss of a sample of rows. */
sac_status sac_layer_scale(sac_layer_job *l, int i, sac_error *err);

#endif
