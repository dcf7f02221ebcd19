/* packed_rows.h - keys and values in 2, 4 or 8 bits: x = code * scale + min, laid out so that a decode step
 * multiplies codes as they are.
 *
 * Codes stand in pairs: a 32-bit word has 16 / bits pairs, pair i being bits [bits * i, bits * i + bits) of
 * both of its halves, so that (word >> bits * i) & mask gives two 16-bit numbers whose products with two
 * others are added by one instruction. A word of keys holds consecutive channels of one row, a word of values
 * consecutive rows of one channel; per_word = 32 / bits.
 *   k [heads][tile of 16 rows][channels / per_word][row of the tile]   the last tile is as narrow as
 *                                                                      `capacity` leaves it
 *   v [heads][rows / per_word][channel]                                the last rows padded
 * Rows are put in order, from row 0; parameters are IEEE halves. */
#ifndef SAC_PACKED_ROWS_H
#define SAC_PACKED_ROWS_H

#include "ops.h"

#define SAC_PACKED_TILE 16

/* One range of numbers: scale is at least (max - min) / (2^bits - 1) and min at most the smallest number,
 * rounded that way to halves, so that no code is clamped and every number comes back within scale / 2. */
typedef struct sac_packed_range {
    uint16_t scale, min;
} sac_packed_range;
sac_packed_range sac_packed_range_of(float min, float max, int bits);

/* Codes of n numbers under ranges as floats: one for each number (stride 1) or one for all (stride 0). */
void sac_packed_encode(const float *x, int64_t n, const float *scale, const float *min, int64_t stride,
                       int bits, uint8_t *codes);

static inline int64_t sac_packed_per_word(int bits) {
    return 32 / bits;
}
/* Words of all heads' keys or values of `capacity` rows. */
size_t sac_packed_key_words(int n_heads, int head_dim, int bits, int64_t capacity);
size_t sac_packed_value_words(int n_heads, int head_dim, int bits, int64_t capacity);

/* Codes [head_dim] of one row of one head. Values: row `row` may only follow row - 1. */
void sac_packed_put_key(const sac_packed_rows *p, int head, int64_t row, const uint8_t *codes);
void sac_packed_put_value(const sac_packed_rows *p, int head, int64_t row, const uint8_t *codes);

/* The numbers back, [head_dim]. */
void sac_packed_get_key(const sac_packed_rows *p, int head, int64_t row, float *x);
void sac_packed_get_value(const sac_packed_rows *p, int head, int64_t row, float *x);

/* What ops ask of a part. */
bool sac_packed_is_valid(const sac_packed_rows *p);

/* Place of the parameters of one (head, row, channel). */
static inline int64_t sac_packed_key_param(const sac_packed_rows *p, int head, int64_t row, int channel) {
    if (p->k_group == 0) return head * p->capacity + row;
    int64_t n_groups = (p->capacity + p->k_group - 1) / p->k_group;
    return (head * n_groups + row / p->k_group) * p->head_dim + channel;
}
static inline int64_t sac_packed_value_param(const sac_packed_rows *p, int head, int64_t row, int channel) {
    int64_t group =
        p->v_group >= p->head_dim
            ? (int64_t)head * p->head_dim / p->v_group
            : (int64_t)head * ((p->head_dim + p->v_group - 1) / p->v_group) + channel / p->v_group;
    return group * p->capacity + row;
}
/* Ranges of a row's values: over all heads, or so many a head. */
static inline int64_t sac_packed_value_groups(int n_heads, int head_dim, int v_group) {
    if (v_group >= head_dim) return ((int64_t)n_heads * head_dim + v_group - 1) / v_group;
    return (int64_t)n_heads * ((head_dim + v_group - 1) / v_group);
}

#endif
