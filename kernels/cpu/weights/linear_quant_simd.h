/* linear_quant_simd.h - the integer vectors of linear_quant, beside the vocabulary of simd.h.
 *
 * A lane is a row of weights (an output column). A vi of weights holds four consecutive elements of each row,
 * so one vi_dot against a broadcast group of four of x advances VF columns and nothing is ever summed across
 * lanes. */
#ifndef SAC_LINEAR_QUANT_SIMD_H
#define SAC_LINEAR_QUANT_SIMD_H

#include "cpu/simd.h"

static inline int32_t load_i32(const void *p) {
    int32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline float load_f32(const void *p) {
    float v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Hides where p and stride come from, so that a loop computes the addresses of its rows from them as it goes
 * instead of keeping one pointer a row, most of them on the stack. */
#define SAC_LQ_OPAQUE(p, stride) __asm__("" : "+r"(p), "+r"(stride))

#if defined(__AVX512F__)

static inline vi vi_zero(void) {
    return _mm512_setzero_si512();
}
static inline vi vi_set1(int32_t x) {
    return _mm512_set1_epi32(x);
}
static inline void vi_store(void *p, vi v) {
    _mm512_storeu_si512(p, v);
}
static inline vi vi_and(vi a, vi b) {
    return _mm512_and_si512(a, b);
}
static inline vi vi_or(vi a, vi b) {
    return _mm512_or_si512(a, b);
}
static inline vi vi_xor(vi a, vi b) {
    return _mm512_xor_si512(a, b);
}
static inline vi vi_add(vi a, vi b) {
    return _mm512_add_epi32(a, b);
}
static inline vi vi_add8(vi a, vi b) {
    return _mm512_add_epi8(a, b);
}
#define vi_shift_left(v, n)         _mm512_slli_epi32(v, n)
#define vi_shift_right(v, n)        _mm512_srli_epi32(v, n)
#define vi_shift_right_signed(v, n) _mm512_srai_epi32(v, n)
static inline vf vi_to_float(vi v) {
    return _mm512_cvtepi32_ps(v);
}
static inline vi vi_from_bits(vf v) {
    return _mm512_castps_si512(v);
}
static inline vi vi_mul(vi a, vi b) {
    return _mm512_mullo_epi32(a, b);
}
static inline vf vf_msub(vf a, vf b, vf c) {
    return _mm512_fmsub_ps(a, b, c);
} /* a b - c */

/* acc + the products of four unsigned bytes of w and four signed of x; of two int16 and two int16. */
static inline vi vi_dot(vi acc, vi w, vi x) {
    return _mm512_dpbusd_epi32(acc, w, x);
}
static inline vi vi_dot16(vi acc, vi a, vi b) {
    return _mm512_dpwssd_epi32(acc, a, b);
}

/* Eight-bit weights are made unsigned, w + 128; the sum's start takes 128 (sum of x) back. */
static inline vi vi_from_q8(vi w) {
    return _mm512_xor_si512(w, _mm512_set1_epi8((char)0x80));
}
static inline vi vi_dot_q8(vi acc, vi w, vi x) {
    return _mm512_dpbusd_epi32(acc, w, x);
}
#define SAC_LQ_Q8_START 128

/* The same 16 bytes in every 128 bits, and the bytes of such a table that stand at places 0 to 15. */
static inline vi vi_repeat16(const void *p) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(p));
}
static inline vi vi_look_up(vi table, vi places) {
    return _mm512_shuffle_epi8(table, places);
}

/* Rows i, i + 4, i + 8, i + 12 of 16 bytes each, the unit that the in-lane unpacks below transpose. */
static inline vi four_rows(const uint8_t *p, size_t stride) {
    vi v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)p));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(p + 4 * stride)), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(p + 8 * stride)), 2);
    return _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(p + 12 * stride)), 3);
}

/* out[j] lane r = bytes [4 j, 4 j + 4) of row r, for rows of 16 bytes `stride` apart. */
static inline void vi_load_rows(const uint8_t *p, size_t stride, vi out[4]) {
    SAC_LQ_OPAQUE(p, stride);
    vi a = four_rows(p, stride), b = four_rows(p + stride, stride);
    vi c = four_rows(p + 2 * stride, stride), d = four_rows(p + 3 * stride, stride);
    vi ab = _mm512_unpacklo_epi32(a, b), cd = _mm512_unpacklo_epi32(c, d);
    out[0] = _mm512_unpacklo_epi64(ab, cd);
    out[1] = _mm512_unpackhi_epi64(ab, cd);
    ab = _mm512_unpackhi_epi32(a, b), cd = _mm512_unpackhi_epi32(c, d);
    out[2] = _mm512_unpacklo_epi64(ab, cd);
    out[3] = _mm512_unpackhi_epi64(ab, cd);
}

/* lane r = the four bytes at p + r * stride */
static inline vi vi_load_words(const uint8_t *p, size_t stride) {
    vi at = _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                               _mm512_set1_epi32((int)stride));
    return _mm512_i32gather_epi32(at, p, 1);
}

static inline vi vi_max_unsigned(vi a, vi b) {
    return _mm512_max_epu32(a, b);
}
/* 0 in the lanes where the divisor is */
static inline vf vf_divide_or_zero(vf a, vf b) {
    return _mm512_maskz_div_ps(_mm512_cmp_ps_mask(b, vf_zero(), _CMP_NEQ_UQ), a, b);
}
static inline vf vf_round_f16(vf v) {
    return _mm512_cvtph_ps(_mm512_cvtps_ph(v, 0));
}

/* Lane i: all lanes of row i joined by `join`. Pairs of rows, then of pairs, then 128-bit quarters. */
#define VI_JOIN_ROWS(name, join)                                                                             \
    static inline vi name(const vi row[16]) {                                                                \
        vi a[8], b[4];                                                                                       \
        for (int i = 0; i < 8; i++)                                                                          \
            a[i] = join(_mm512_unpacklo_epi32(row[2 * i], row[2 * i + 1]),                                   \
                        _mm512_unpackhi_epi32(row[2 * i], row[2 * i + 1]));                                  \
        for (int i = 0; i < 4; i++)                                                                          \
            b[i] = join(_mm512_unpacklo_epi64(a[2 * i], a[2 * i + 1]),                                       \
                        _mm512_unpackhi_epi64(a[2 * i], a[2 * i + 1]));                                      \
        for (int i = 0; i < 2; i++)                                                                          \
            a[i] = join(_mm512_shuffle_i32x4(b[2 * i], b[2 * i + 1], 0x88),                                  \
                        _mm512_shuffle_i32x4(b[2 * i], b[2 * i + 1], 0xdd));                                 \
        return join(_mm512_shuffle_i32x4(a[0], a[1], 0x88), _mm512_shuffle_i32x4(a[0], a[1], 0xdd));         \
    }
VI_JOIN_ROWS(vi_sum_rows, vi_add)
VI_JOIN_ROWS(vi_max_rows, vi_max_unsigned)

/* q[i] = x[i] * inverse to the nearest integer, ties to even, for 16 elements; the integers, added up in
 * lanes as they fall. */
static inline vi round16_lanes(const float *x, float inverse, int8_t *q) {
    vi v = _mm512_cvtps_epi32(vf_mul(vf_load(x), vf_set1(inverse)));
    v = _mm512_max_epi32(v, _mm512_set1_epi32(-128)); /* NaN becomes INT_MIN, and sums of it overflow */
    _mm_storeu_si128((__m128i *)q, _mm512_cvtsepi32_epi8(v));
    return v;
}
static inline int32_t vi_sum(vi v) {
    return _mm512_reduce_add_epi32(v);
}
static inline uint32_t vi_max_lane(vi v) {
    return _mm512_reduce_max_epu32(v);
}

#else

static inline vi vi_zero(void) {
    return _mm256_setzero_si256();
}
static inline vi vi_set1(int32_t x) {
    return _mm256_set1_epi32(x);
}
static inline void vi_store(void *p, vi v) {
    _mm256_storeu_si256((__m256i *)p, v);
}
static inline vi vi_and(vi a, vi b) {
    return _mm256_and_si256(a, b);
}
static inline vi vi_or(vi a, vi b) {
    return _mm256_or_si256(a, b);
}
static inline vi vi_add(vi a, vi b) {
    return _mm256_add_epi32(a, b);
}
static inline vi vi_add8(vi a, vi b) {
    return _mm256_add_epi8(a, b);
}
#define vi_shift_left(v, n)         _mm256_slli_epi32(v, n)
#define vi_shift_right(v, n)        _mm256_srli_epi32(v, n)
#define vi_shift_right_signed(v, n) _mm256_srai_epi32(v, n)
static inline vf vi_to_float(vi v) {
    return _mm256_cvtepi32_ps(v);
}
static inline vi vi_from_bits(vf v) {
    return _mm256_castps_si256(v);
}
static inline vi vi_mul(vi a, vi b) {
    return _mm256_mullo_epi32(a, b);
}
static inline vf vf_msub(vf a, vf b, vf c) {
    return _mm256_fmsub_ps(a, b, c);
}

/* No saturation: unsigned weights stay below 64, signed ones come as magnitudes up to 128, and two products
 * below 2^15 are summed. */
static inline vi vi_dot(vi acc, vi w, vi x) {
    return vi_add(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), _mm256_set1_epi16(1)));
}
static inline vi vi_dot16(vi acc, vi a, vi b) {
    return vi_add(acc, _mm256_madd_epi16(a, b));
}
static inline vi vi_from_q8(vi w) {
    return w;
}
static inline vi vi_dot_q8(vi acc, vi w, vi x) {
    return vi_dot(acc, _mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
}
#define SAC_LQ_Q8_START             0

static inline vi vi_repeat16(const void *p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(p));
}
static inline vi vi_look_up(vi table, vi places) {
    return _mm256_shuffle_epi8(table, places);
}

static inline vi two_rows(const uint8_t *p, size_t stride) {
    return _mm256_loadu2_m128i((const __m128i *)(p + 4 * stride), (const __m128i *)p);
}
static inline void vi_load_rows(const uint8_t *p, size_t stride, vi out[4]) {
    SAC_LQ_OPAQUE(p, stride);
    vi a = two_rows(p, stride), b = two_rows(p + stride, stride);
    vi c = two_rows(p + 2 * stride, stride), d = two_rows(p + 3 * stride, stride);
    vi ab = _mm256_unpacklo_epi32(a, b), cd = _mm256_unpacklo_epi32(c, d);
    out[0] = _mm256_unpacklo_epi64(ab, cd);
    out[1] = _mm256_unpackhi_epi64(ab, cd);
    ab = _mm256_unpackhi_epi32(a, b), cd = _mm256_unpackhi_epi32(c, d);
    out[2] = _mm256_unpacklo_epi64(ab, cd);
    out[3] = _mm256_unpackhi_epi64(ab, cd);
}

static inline vi vi_load_words(const uint8_t *p, size_t stride) {
    vi at = _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32((int)stride));
    return _mm256_i32gather_epi32((const int *)(const void *)p, at, 1);
}

static inline int32_t vi_sum(vi v) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

static inline uint32_t vi_max_lane(vi v) {
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
    return (uint32_t)_mm_cvtsi128_si32(_mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1)));
}

static inline vi vi_max_unsigned(vi a, vi b) {
    return _mm256_max_epu32(a, b);
}
#define VI_JOIN_ROWS(name, join)                                                                             \
    static inline vi name(const vi row[8]) {                                                                 \
        vi a[4], b[2];                                                                                       \
        for (int i = 0; i < 4; i++)                                                                          \
            a[i] = join(_mm256_unpacklo_epi32(row[2 * i], row[2 * i + 1]),                                   \
                        _mm256_unpackhi_epi32(row[2 * i], row[2 * i + 1]));                                  \
        for (int i = 0; i < 2; i++)                                                                          \
            b[i] = join(_mm256_unpacklo_epi64(a[2 * i], a[2 * i + 1]),                                       \
                        _mm256_unpackhi_epi64(a[2 * i], a[2 * i + 1]));                                      \
        return join(_mm256_permute2x128_si256(b[0], b[1], 0x20),                                             \
                    _mm256_permute2x128_si256(b[0], b[1], 0x31));                                            \
    }
VI_JOIN_ROWS(vi_sum_rows, vi_add)
VI_JOIN_ROWS(vi_max_rows, vi_max_unsigned)

static inline vf vf_divide_or_zero(vf a, vf b) {
    return _mm256_and_ps(_mm256_div_ps(a, b), _mm256_cmp_ps(b, vf_zero(), _CMP_NEQ_UQ));
}
static inline vf vf_round_f16(vf v) {
    return _mm256_cvtph_ps(_mm256_cvtps_ph(v, 0));
}

static inline vi round16_lanes(const float *x, float inverse, int8_t *q) {
    vi a = _mm256_cvtps_epi32(vf_mul(vf_load(x), vf_set1(inverse)));
    vi b = _mm256_cvtps_epi32(vf_mul(vf_load(x + 8), vf_set1(inverse)));
    vi ab = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
    _mm_storeu_si128((__m128i *)q,
                     _mm_packs_epi16(_mm256_castsi256_si128(ab), _mm256_extracti128_si256(ab, 1)));
    return vi_add(a, b);
}

#endif
#endif
