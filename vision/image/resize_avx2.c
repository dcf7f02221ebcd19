/* resize_avx2.c - pmaddwd over pairs of taps: pixels as 16-bit, weights as two 16-bit halves (see
 * resize_kernels.h). Two multiply-adds of 16 products each replace 16 32-bit multiplications, which cost two
 * of them each. */
#include "resize_kernels.h"

#ifdef __x86_64__

#include <immintrin.h>
#include <stdbool.h>

/* One vector holds four taps of one output: in the lower half taps 0 and 1, in the upper half 2 and 3, each
 * as pairs (tap, tap) of r, g, b and nothing. */
static inline __m256i load_taps(const uint8_t *p) {
    const __m256i pick = _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, /**/
                                          6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)p)), pick);
}

static inline __m256i load_weights(const int16_t *w) {
    const __m256i pick = _mm256_setr_epi8(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, /**/
                                          4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
    return _mm256_shuffle_epi8(_mm256_broadcastq_epi64(_mm_loadl_epi64((const void *)w)), pick);
}

/* Rounds the sums of r, g, b and writes three bytes and one more. */
static inline void finish(uint8_t *out, __m256i high, __m256i low, bool two_halves, __m128i half,
                          __m128i shift) {
    __m256i sum = two_halves ? _mm256_add_epi32(_mm256_slli_epi32(high, SAC_RESIZE_LOW_BITS), low) : high;
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    s = _mm_sra_epi32(_mm_add_epi32(s, half), shift);
    s = _mm_packus_epi16(_mm_packs_epi32(s, s), s);
    _mm_storeu_si32(out, s);
}

static inline void horizontal_rows(const sac_resize_axis *a, uint8_t *const *out, const uint8_t *const *row,
                                   int n_rows, bool two_halves) {
    const __m128i half = _mm_set1_epi32(1 << (a->fraction_bits - 1)),
                  shift = _mm_cvtsi32_si128(a->fraction_bits);
    for (int i = 0; i < a->n_out; i++) {
        size_t k = (size_t)i * (size_t)a->n_taps_max, at = (size_t)a->first[i] * 3;
        __m256i high[SAC_RESIZE_MAX_ROWS], low[SAC_RESIZE_MAX_ROWS];
        for (int r = 0; r < n_rows; r++) high[r] = low[r] = _mm256_setzero_si256();
        for (int t = 0; t < a->taps[i]; t += 4, k += 4, at += 12) {
            __m256i wh = load_weights(a->high + k), wl = two_halves ? load_weights(a->low + k) : wh;
            for (int r = 0; r < n_rows; r++) {
                __m256i p = load_taps(row[r] + at);
                high[r] = _mm256_add_epi32(high[r], _mm256_madd_epi16(p, wh));
                if (two_halves) low[r] = _mm256_add_epi32(low[r], _mm256_madd_epi16(p, wl));
            }
        }
        for (int r = 0; r < n_rows; r++)
            finish(out[r] + (size_t)i * 3, high[r], low[r], two_halves, half, shift);
    }
}

/* Written out for each case, so that the sums stay in registers. */
static void horizontal(const sac_resize_axis *a, uint8_t *const *out, const uint8_t *const *row, int n_rows) {
    if (n_rows == SAC_RESIZE_MAX_ROWS) {
        if (a->low)
            horizontal_rows(a, out, row, SAC_RESIZE_MAX_ROWS, true);
        else
            horizontal_rows(a, out, row, SAC_RESIZE_MAX_ROWS, false);
        return;
    }
    for (int r = 0; r < n_rows; r++) {
        if (a->low)
            horizontal_rows(a, out + r, row + r, 1, true);
        else
            horizontal_rows(a, out + r, row + r, 1, false);
    }
}

static inline __m256i pair_of(const int16_t *w, bool second) {
    return _mm256_set1_epi32((int32_t)((uint16_t)w[0] | (second ? (uint32_t)(uint16_t)w[1] << 16 : 0)));
}

/* 32 bytes of one output row. */
static inline void vertical_block(const sac_resize_axis *a, int i, uint8_t *out, const uint8_t *const *row,
                                  size_t b, bool two_halves) {
    const int16_t *wh = a->high + (size_t)i * (size_t)a->n_taps_max;
    const int16_t *wl = two_halves ? a->low + (size_t)i * (size_t)a->n_taps_max : wh;
    __m256i high[4], low[4];
    for (int j = 0; j < 4; j++) high[j] = low[j] = _mm256_setzero_si256();
    const int n = a->taps[i];
    for (int t = 0; t < n; t += 2) {
        bool second = t + 1 < n;
        __m256i p = _mm256_loadu_si256((const void *)(row[t] + b));
        __m256i q = second ? _mm256_loadu_si256((const void *)(row[t + 1] + b)) : _mm256_setzero_si256();
        __m256i lo = _mm256_unpacklo_epi8(p, q), hi = _mm256_unpackhi_epi8(p, q),
                zero = _mm256_setzero_si256();
        /* (p, q) byte pairs to 16-bit pairs. Lanes keep their place: packing below undoes the order. */
        __m256i pq[4] = {_mm256_unpacklo_epi8(lo, zero), _mm256_unpackhi_epi8(lo, zero),
                         _mm256_unpacklo_epi8(hi, zero), _mm256_unpackhi_epi8(hi, zero)};
        __m256i h = pair_of(wh + t, second), l = pair_of(wl + t, second);
        for (int j = 0; j < 4; j++) {
            high[j] = _mm256_add_epi32(high[j], _mm256_madd_epi16(pq[j], h));
            if (two_halves) low[j] = _mm256_add_epi32(low[j], _mm256_madd_epi16(pq[j], l));
        }
    }
    const __m256i half = _mm256_set1_epi32(1 << (a->fraction_bits - 1));
    const __m128i shift = _mm_cvtsi32_si128(a->fraction_bits);
    for (int j = 0; j < 4; j++) {
        __m256i s =
            two_halves ? _mm256_add_epi32(_mm256_slli_epi32(high[j], SAC_RESIZE_LOW_BITS), low[j]) : high[j];
        high[j] = _mm256_sra_epi32(_mm256_add_epi32(s, half), shift);
    }
    __m256i bytes =
        _mm256_packus_epi16(_mm256_packs_epi32(high[0], high[1]), _mm256_packs_epi32(high[2], high[3]));
    _mm256_storeu_si256((void *)(out + b), bytes);
}

static void vertical(const sac_resize_axis *a, int i, uint8_t *out, const uint8_t *const *row,
                     size_t n_bytes) {
    if (n_bytes < 32) {
        sac_resize_ref.vertical(a, i, out, row, n_bytes);
        return;
    }
    for (size_t b = 0; b < n_bytes;) {
        if (b + 32 > n_bytes) b = n_bytes - 32; /* the last block overlaps the one before */
        if (a->low)
            vertical_block(a, i, out, row, b, true);
        else
            vertical_block(a, i, out, row, b, false);
        b += 32;
    }
}

const sac_resize_kernels sac_resize_avx2 = {"avx2", horizontal, vertical, .reads_digits = false};

#else

typedef int sac_resize_avx2_needs_x86; /* a translation unit may not be empty */

#endif
