/* legacy_blocks.h - what the blocks of 32 have in common: a scale, or a scale and a minimum, and codes of 4 or 5 bits
 * as low nibbles of the first half beside high nibbles of the second. Formulas are those of gguf-py's quants.py, in
 * f32 and in its order. */
#ifndef SAC_MODELS_LEGACY_BLOCKS_H
#define SAC_MODELS_LEGACY_BLOCKS_H

#include "quants.h"

/* Codes around a middle: the element of largest magnitude becomes 0, so the scale has its sign turned. */
uint16_t sac_block_around(const float x[32], int middle, uint8_t q[32]);

/* Codes from the smallest to the largest element; most: the largest code. */
void sac_block_between(const float x[32], int most, uint16_t *d, uint16_t *m, uint8_t q[32]);

void sac_block_nibbles(const uint8_t q[32], uint8_t out[16]);
void sac_block_fifth_bits(const uint8_t q[32], uint8_t out[4]);

#endif
