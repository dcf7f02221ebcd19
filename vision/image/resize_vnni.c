/* resize_vnni.c - vpdpbusd, which adds four products of a byte of pixels and a signed byte of weights to a sum:
 * four taps of one value at once. A weight is three such digits, whose sums are put together at the end; all of
 * it is exact. */
#include "resize_kernels.h"

#ifdef __x86_64__

#include <immintrin.h>
#include <string.h>

#define BLOCK_BYTES 64 /* of the vertical pass */

/* Sums of the products with each digit of the weights. */
typedef struct digit_sums {
    __m512i high, middle, low;
} digit_sums;

static inline digit_sums zero_sums(void) {
    const __m512i zero = _mm512_setzero_si512();
    return (digit_sums){zero, zero, zero};
}

static inline __m512i four_digits(const int8_t *digits) {
    int32_t four;
    memcpy(&four, digits, sizeof four);
    return _mm512_set1_epi32(four);
}

_Static_assert(SAC_RESIZE_DIGITS == 3, "as many sums");

/* Four taps of every value; digits [SAC_RESIZE_DIGITS][4]. */
static inline void add_taps(digit_sums *s, __m512i pixels, const int8_t *digits) {
    s->high = _mm512_dpbusd_epi32(s->high, pixels, four_digits(digits));
    s->middle = _mm512_dpbusd_epi32(s->middle, pixels, four_digits(digits + 4));
    s->low = _mm512_dpbusd_epi32(s->low, pixels, four_digits(digits + 8));
}

static inline __m512i rounded(digit_sums s, __m512i half, __m128i shift) {
    __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(s.high, 8), s.middle);
    sum = _mm512_add_epi32(_mm512_slli_epi32(sum, 8), s.low);
    return _mm512_sra_epi32(_mm512_add_epi32(sum, half), shift);
}

/* Four vectors of sums to bytes. Quarters keep their place. */
static inline __m512i to_bytes(const __m512i s[4]) {
    return _mm512_packus_epi16(_mm512_packs_epi32(s[0], s[1]), _mm512_packs_epi32(s[2], s[3]));
}

/* Four pixels of each of four rows, a row a quarter: the four reds, greens, blues, and nothing. */
static inline __m512i load_taps(const uint8_t *const *row, size_t at) {
    const __m512i pick =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1));
    __m512i p = _mm512_castsi128_si512(_mm_loadu_si128((const void *)(row[0] + at)));
    p = _mm512_inserti32x4(p, _mm_loadu_si128((const void *)(row[1] + at)), 1);
    p = _mm512_inserti32x4(p, _mm_loadu_si128((const void *)(row[2] + at)), 2);
    p = _mm512_inserti32x4(p, _mm_loadu_si128((const void *)(row[3] + at)), 3);
    return _mm512_shuffle_epi8(p, pick);
}

/* Output i of four rows: r, g, b and nothing of each. */
static inline digit_sums horizontal_sums(const sac_resize_axis *a, const uint8_t *const *row, int i) {
    const int8_t *digits = a->digits + (size_t)i * (size_t)a->n_taps_max * SAC_RESIZE_DIGITS;
    size_t at = (size_t)a->first[i] * 3;
    digit_sums s = zero_sums();
    for (int t = 0; t < a->taps[i]; t += 4, at += 12, digits += 4 * SAC_RESIZE_DIGITS)
        add_taps(&s, load_taps(row, at), digits);
    return s;
}

/* Four outputs at a time: 12 bytes of each row and 4 more, which the next four or nobody uses. */
static void horizontal_rows(const sac_resize_axis *a, uint8_t *const *out, const uint8_t *const *row) {
    const __m512i pick =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    const __m512i half = _mm512_set1_epi32(1 << (a->fraction_bits - 1));
    const __m128i shift = _mm_cvtsi32_si128(a->fraction_bits);
    const int last = a->n_out - 1;
    for (int i = 0; i < a->n_out; i += 4) {
        __m512i s[4];
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++)
            s[k] = rounded(horizontal_sums(a, row, i + k < last ? i + k : last), half, shift);
        __m512i bytes = _mm512_shuffle_epi8(to_bytes(s), pick);
        size_t at = (size_t)i * 3;
        _mm_storeu_si128((void *)(out[0] + at), _mm512_castsi512_si128(bytes));
        _mm_storeu_si128((void *)(out[1] + at), _mm512_extracti32x4_epi32(bytes, 1));
        _mm_storeu_si128((void *)(out[2] + at), _mm512_extracti32x4_epi32(bytes, 2));
        _mm_storeu_si128((void *)(out[3] + at), _mm512_extracti32x4_epi32(bytes, 3));
    }
}

_Static_assert(SAC_RESIZE_MAX_ROWS == 4, "a quarter of a vector is a row");

/* Fewer rows than four: the last is made several times. */
static void horizontal(const sac_resize_axis *a, uint8_t *const *out, const uint8_t *const *row, int n_rows) {
    uint8_t *to[SAC_RESIZE_MAX_ROWS];
    const uint8_t *from[SAC_RESIZE_MAX_ROWS];
    for (int r = 0; r < SAC_RESIZE_MAX_ROWS; r++) {
        to[r] = out[r < n_rows ? r : n_rows - 1];
        from[r] = row[r < n_rows ? r : n_rows - 1];
    }
    horizontal_rows(a, to, from);
}

/* 64 bytes of one output row. */
static inline void vertical_block(const sac_resize_axis *a, int i, uint8_t *out, const uint8_t *const *row,
                                  size_t b) {
    const int8_t *digits = a->digits + (size_t)i * (size_t)a->n_taps_max * SAC_RESIZE_DIGITS;
    const int last = a->taps[i] - 1;
    digit_sums s[4] = {zero_sums(), zero_sums(), zero_sums(), zero_sums()};
    for (int t = 0; t <= last; t += 4, digits += 4 * SAC_RESIZE_DIGITS) {
        __m512i p[4]; /* behind the taps weights are 0 */
        for (int k = 0; k < 4; k++)
            p[k] = _mm512_loadu_si512((const void *)(row[t + k < last ? t + k : last] + b));
        __m512i lo = _mm512_unpacklo_epi8(p[0], p[1]), hi = _mm512_unpackhi_epi8(p[0], p[1]);
        __m512i lo2 = _mm512_unpacklo_epi8(p[2], p[3]), hi2 = _mm512_unpackhi_epi8(p[2], p[3]);
        /* The four taps of a value together. Packing undoes the order. */
        add_taps(&s[0], _mm512_unpacklo_epi16(lo, lo2), digits);
        add_taps(&s[1], _mm512_unpackhi_epi16(lo, lo2), digits);
        add_taps(&s[2], _mm512_unpacklo_epi16(hi, hi2), digits);
        add_taps(&s[3], _mm512_unpackhi_epi16(hi, hi2), digits);
    }
    const __m512i half = _mm512_set1_epi32(1 << (a->fraction_bits - 1));
    const __m128i shift = _mm_cvtsi32_si128(a->fraction_bits);
    __m512i sums[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) sums[k] = rounded(s[k], half, shift);
    _mm512_storeu_si512((void *)(out + b), to_bytes(sums));
}

static void vertical(const sac_resize_axis *a, int i, uint8_t *out, const uint8_t *const *row,
                     size_t n_bytes) {
    if (n_bytes < BLOCK_BYTES) {
        sac_resize_avx2.vertical(a, i, out, row, n_bytes);
        return;
    }
    for (size_t b = 0; b < n_bytes; b += BLOCK_BYTES) {
        if (b + BLOCK_BYTES > n_bytes) b = n_bytes - BLOCK_BYTES; /* the last block overlaps the one before */
        vertical_block(a, i, out, row, b);
    }
}

const sac_resize_kernels sac_resize_vnni = {"vnni", horizontal, vertical, .reads_digits = true};

#else

typedef int sac_resize_vnni_needs_x86; /* a translation unit may not be empty */

#endif
