/* x_rounding.h - rows of x as a checkpoint has them rounded before they meet its weights (sac_x_rounding). */
#ifndef SAC_REF_X_ROUNDING_H
#define SAC_REF_X_ROUNDING_H

#include "weight.h"

/* y[0..k) = x rounded as w asks, in f32; y may not be x. */
void sac_round_x(const sac_weight *w, const float *x, float *y, int64_t k);

/* The value of an e4m3 byte (OCP 8-bit floating point, 2023, section 5; no infinities, NaN is 0x7f and 0xff). */
float sac_e4m3_to_f32(uint8_t b);

/* |v| <= 448 to the nearest number of e4m3, ties to even. */
float sac_round_to_e4m3(float v);

#endif
