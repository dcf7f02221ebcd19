/* rounded_x.h - rows of x rounded to 8 bits, in the blocks that meet each format's (quants.h). */
#ifndef SAC_ROUNDED_X_H
#define SAC_ROUNDED_X_H

#include <stdint.h>

/* n elements to blocks of sac_xblock_q8_0, sac_xblock_q8_1, sac_xblock_q8_k. */
void sac_round_to_q8_0(const float *x, void *blocks, int64_t n);
void sac_round_to_q8_1(const float *x, void *blocks, int64_t n);
void sac_round_to_q8_k(const float *x, void *blocks, int64_t n);

#endif
