/* k_search.h - scales for the blocks of 256 (Q4_K, Q5_K, Q6_K): for each group of elements the scale, or scale and
 * minimum, whose codes have the least sum of squared errors among those tried. For a set of codes the best scale is
 * that of a linear regression; candidates differ in the step that codes are made with. */
#ifndef SAC_MODELS_K_SEARCH_H
#define SAC_MODELS_K_SEARCH_H

#include "quants.h"

/* x is about scale q - min, q from 0 to `most`, min and scale not negative. n a multiple of 8, at most 32. */
void sac_search_min(const float *x, int n, int most, float *scale, float *min);

/* x is about scale q, q from -most to most - 1; the scale has either sign. n a multiple of 8, at most 32. */
float sac_search_signed(const float *x, int n, int most);

/* A block of Q4_K or Q5_K: scales and minima of its eight groups of 32 in 6 bits each, packed as these formats have
 * them, what they are multiples of (f16), and the codes. */
void sac_search_k_block(const float x[256], int most, uint16_t *d, uint16_t *dmin, uint8_t packed[12],
                        uint8_t q[256]);

/* Their parts: six-bit scales and minima of eight groups; codes of a block, one a byte, as its format has them. */
void sac_pack_k_scales(const int scale[8], const int min[8], uint8_t packed[12]);
void sac_pack_q4_k(const uint8_t q[256], sac_block_q4_k *b);
void sac_pack_q5_k(const uint8_t q[256], sac_block_q5_k *b);
void sac_pack_q6_k(const uint8_t q[256], sac_block_q6_k *b);

/* To nearest, ties to even, of magnitudes below 2^22: what rintf does, in a form that compilers make vectors of. */
static inline float sac_nearest(float x) {
    return (x + 12582912.0f) - 12582912.0f;
}

#endif
