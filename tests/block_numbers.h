/* block_numbers.h - GGUF's blocks with scales of a test's choice: any other byte of a block may be anything. */
#ifndef SAC_TEST_BLOCK_NUMBERS_H
#define SAC_TEST_BLOCK_NUMBERS_H

#include "dtype.h"

#include <math.h>
#include <stdbool.h>

/* Types of blocks, from SAC_DTYPE_Q8_0 on. */
enum { N_BLOCK_DTYPES = SAC_DTYPE_I8 - SAC_DTYPE_Q8_0 };

/* Where a block's f16 scale stands and, if it has them, the f16 minimum or the scale of its minima (0: it has none), and about
 * how large its other numbers are together. */
typedef struct block_numbers {
    int d, m, span;
} block_numbers;

static inline block_numbers block_numbers_of(sac_dtype t) {
    static const block_numbers all[SAC_N_DTYPES] = {
        [SAC_DTYPE_Q8_0] = {0, 0, 127},    [SAC_DTYPE_Q4_0] = {0, 0, 8},    [SAC_DTYPE_Q4_1] = {0, 2, 15},
        [SAC_DTYPE_Q5_0] = {0, 0, 16},     [SAC_DTYPE_Q5_1] = {0, 2, 31},   [SAC_DTYPE_IQ4_NL] = {0, 0, 127},
        [SAC_DTYPE_MXFP4] = {0, 0, 12},    [SAC_DTYPE_Q2_K] = {80, 82, 40}, [SAC_DTYPE_Q3_K] = {108, 0, 64},
        [SAC_DTYPE_Q4_K] = {0, 2, 500},    [SAC_DTYPE_Q5_K] = {0, 2, 1000}, [SAC_DTYPE_Q6_K] = {208, 0, 2000},
        [SAC_DTYPE_IQ4_XS] = {0, 0, 2000},
    };
    return all[t];
}

/* Sets them; mxfp4 takes the power of two at or above d. */
static inline void block_put_numbers(sac_dtype t, uint8_t *block, float d, float m) {
    const block_numbers at = block_numbers_of(t);
    const uint16_t d16 = sac_f32_to_f16(d), m16 = sac_f32_to_f16(m);
    if (t == SAC_DTYPE_MXFP4) {
        block[0] = (uint8_t)(d != 0 ? 129 + ilogbf(d) : 0);
        return;
    }
    memcpy(block + at.d, &d16, 2);
    if (at.m) memcpy(block + at.m, &m16, 2);
}

#endif
