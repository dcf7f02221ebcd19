/* simd_avx512.h - the vector type of the kernel templates, 16 lanes. See simd.h for what
 * each function does. */
#ifndef SAC_SIMD_AVX512_H
#define SAC_SIMD_AVX512_H

#include <immintrin.h>

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;
#define VF           16
#define SAC_ISA(fn)  fn##_avx512
#define SAC_ISA_TEXT "avx512"

static inline __mmask16 vf_first_lanes(int64_t n) {
    if (n >= 16) return (__mmask16)0xffff;
    return (__mmask16)((1u << n) - 1u);
}

static inline vf vf_zero(void) {
    return _mm512_setzero_ps();
}
static inline vf vf_set1(float x) {
    return _mm512_set1_ps(x);
}
static inline vf vf_load(const float *p) {
    return _mm512_loadu_ps(p);
}
static inline void vf_store(float *p, vf v) {
    _mm512_storeu_ps(p, v);
}
static inline vf vf_load_part(const float *p, int64_t n) {
    return _mm512_maskz_loadu_ps(vf_first_lanes(n), p);
}
static inline void vf_store_part(float *p, vf v, int64_t n) {
    _mm512_mask_storeu_ps(p, vf_first_lanes(n), v);
}
static inline vf vf_add(vf a, vf b) {
    return _mm512_add_ps(a, b);
}
static inline vf vf_sub(vf a, vf b) {
    return _mm512_sub_ps(a, b);
}
static inline vf vf_mul(vf a, vf b) {
    return _mm512_mul_ps(a, b);
}
static inline vf vf_div(vf a, vf b) {
    return _mm512_div_ps(a, b);
}
static inline vf vf_max(vf a, vf b) {
    return _mm512_max_ps(a, b);
}
static inline vf vf_min(vf a, vf b) {
    return _mm512_min_ps(a, b);
}
static inline vf vf_fma(vf a, vf b, vf c) {
    return _mm512_fmadd_ps(a, b, c);
}
static inline vf vf_fnma(vf a, vf b, vf c) {
    return _mm512_fnmadd_ps(a, b, c);
}
static inline vf vf_round(vf a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* a - round(a); 0 for infinities, where the subtraction would give NaN */
static inline vf vf_fraction(vf a) {
    return _mm512_reduce_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vf vf_scale2(vf a, vf n) {
    return _mm512_scalef_ps(a, n);
}
static inline vf vf_abs(vf a) {
    return _mm512_abs_ps(a);
}
static inline vf vf_select_negative(vf sign, vf if_negative, vf otherwise) {
    return _mm512_mask_blend_ps(_mm512_movepi32_mask(_mm512_castps_si512(sign)), otherwise, if_negative);
}
static inline vf vf_keep_lanes(vf v, int64_t first, int64_t end, vf otherwise) {
    __mmask16 m = (__mmask16)(vf_first_lanes(end < 0 ? 0 : end) & ~vf_first_lanes(first < 0 ? 0 : first));
    return _mm512_mask_blend_ps(m, otherwise, v);
}
static inline float vf_sum(vf a) {
    return _mm512_reduce_add_ps(a);
}
/* sum[i] = vf_sum(a[i]), with the same bits: halves are added first, then quarters, then lanes. */
static inline void vf_sum_four(const vf a[4], float sum[4]) {
    vf ab = _mm512_add_ps(_mm512_shuffle_f32x4(a[0], a[1], 0x44), _mm512_shuffle_f32x4(a[0], a[1], 0xee));
    vf cd = _mm512_add_ps(_mm512_shuffle_f32x4(a[2], a[3], 0x44), _mm512_shuffle_f32x4(a[2], a[3], 0xee));
    vf s = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
    s = _mm512_add_ps(s, _mm512_permute_ps(s, 0x4e));
    s = _mm512_add_ps(s, _mm512_permute_ps(s, 0xb1));
    _mm_storeu_ps(sum, _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, s)));
}
/* Lane i = sum of a[i]'s lanes: a transposition that adds on the way. */
static inline vf vf_sum_each(const vf a[16]) {
    vf b[8], c[4], d[2];
    for (int i = 0; i < 8; i++)
        b[i] = _mm512_add_ps(_mm512_unpacklo_ps(a[2 * i], a[2 * i + 1]),
                             _mm512_unpackhi_ps(a[2 * i], a[2 * i + 1]));
    for (int i = 0; i < 4; i++) {
        __m512d x = _mm512_castps_pd(b[2 * i]), y = _mm512_castps_pd(b[2 * i + 1]);
        c[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)),
                             _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
    }
    for (int i = 0; i < 2; i++) /* each 128-bit quarter of c[i] holds partial sums of a[4i .. 4i + 3] */
        d[i] = _mm512_add_ps(_mm512_shuffle_f32x4(c[2 * i], c[2 * i + 1], 0x88),
                             _mm512_shuffle_f32x4(c[2 * i], c[2 * i + 1], 0xdd));
    return _mm512_add_ps(_mm512_shuffle_f32x4(d[0], d[1], 0x88), _mm512_shuffle_f32x4(d[0], d[1], 0xdd));
}
static inline float vf_max_lane(vf a) {
    return _mm512_reduce_max_ps(a);
}

static inline vf vf_load_f16(const void *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
static inline vf vf_load_bf16(const void *p) {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
static inline vf vf_load_i8(const int8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
static inline vf vf_load_i8_part(const int8_t *p, int64_t n) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(vf_first_lanes(n), p)));
}
static inline vf vf_load_f16_part(const void *p, int64_t n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(vf_first_lanes(n), p));
}
static inline vf vf_load_bf16_part(const void *p, int64_t n) {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(vf_first_lanes(n), p)), 16));
}
static inline void vf_store_f16_part(void *p, vf v, int64_t n) {
    _mm256_mask_storeu_epi16(p, vf_first_lanes(n),
                             _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
/* Round to nearest even by integer arithmetic, as sac_f32_to_bf16; a NaN keeps its upper half, made quiet. */
static inline void vf_store_bf16_part(void *p, vf v, int64_t n) {
    __m512i u = _mm512_castps_si512(v);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i r = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
    r = _mm512_mask_or_epi32(r, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), u, _mm512_set1_epi32(0x400000));
    _mm256_mask_storeu_epi16(p, vf_first_lanes(n), _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16)));
}

/* {c0 s0 c1 s1 ...} of n pairs into c and s */
static inline void vf_load_pairs(const float *p, int64_t n, vf *c, vf *s) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    vf lo = vf_load_part(p, 2 * n), hi = vf_zero();
    if (n > 8) hi = vf_load_part(p + 16, 2 * n - 16);
    *c = _mm512_permutex2var_ps(lo, even, hi);
    *s = _mm512_permutex2var_ps(lo, _mm512_add_epi32(even, _mm512_set1_epi32(1)), hi);
}
/* {a b a b ...} */
static inline vf vf_alternate(vf a, vf b) {
    return _mm512_mask_blend_ps((__mmask16)0xaaaa, a, b);
}
/* Pairs (x0, x1) in v turned by the pairs (cos, sin) in cs */
static inline vf vf_rotate_pairs(vf v, vf cs) {
    vf swapped = _mm512_permute_ps(v, 0xb1);
    return _mm512_fmaddsub_ps(v, _mm512_moveldup_ps(cs), _mm512_mul_ps(swapped, _mm512_movehdup_ps(cs)));
}

static inline vi vi_load(const void *p) {
    return _mm512_loadu_si512(p);
}
static inline vi vi_load_part(const void *p, int64_t n) {
    return _mm512_maskz_loadu_epi32(vf_first_lanes(n), p);
}
static inline vi vf_bits(vf v) {
    return _mm512_castps_si512(v);
}
static inline vf vf_from_bits(vi v) {
    return _mm512_castsi512_ps(v);
}
/* f32 of the lower or upper 16-bit half of every lane */
static inline vf vf_bf16_low(vi v) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16));
}
static inline vf vf_bf16_high(vi v) {
    return _mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32((int)0xffff0000u)));
}
static inline vf vf_f16_low(vi v) {
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
}
static inline vf vf_f16_high(vi v) {
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(v, 16)));
}

/* Masks of lanes. A comparison with NaN is false. */
static inline vm vm_first(int64_t n) {
    return vf_first_lanes(n);
}
static inline vm vf_at_least(vf a, vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ);
}
static inline vm vm_and(vm a, vm b) {
    return (vm)(a & b);
}
static inline vm vm_or(vm a, vm b) {
    return (vm)(a | b);
}
static inline vm vm_without(vm a, vm b) {
    return (vm)(a & ~b);
}
static inline int vm_count(vm m) {
    return __builtin_popcount(m);
}
static inline vf vf_choose(vm m, vf if_set, vf otherwise) {
    return _mm512_mask_blend_ps(m, otherwise, if_set);
}
/* Stores the lanes of `what` that the mask has together at `to`, which has room for a whole vector; returns
 * their number. */
static inline int64_t vi_pack(void *to, vi what, vm m) {
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(m, what)); /* storing compressed is slow on some */
    return vm_count(m);
}
/* The same for the lanes whose lane of key is in [base, base + width). */
static inline int64_t vi_pack_range(void *to, vi what, vi key, uint32_t base, uint32_t width) {
    vi offset = _mm512_sub_epi32(key, _mm512_set1_epi32((int)base));
    return vi_pack(to, what, _mm512_cmplt_epu32_mask(offset, _mm512_set1_epi32((int)width)));
}
/* {first, first + 1 ...} */
static inline vi vi_count_from(int32_t first) {
    const vi lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_add_epi32(_mm512_set1_epi32(first), lanes);
}

/* Four columns of 16 rows: lane i of column[j] = the j-th 32-bit number at row[i] + offset. Quarters of a
 * vector are loaded from rows 4 apart, so what is left of the transposition stays within quarters: half the
 * shuffles, and the insertions have two ports where shuffles have one. */
static inline void vi_load_columns(const void *const row[16], size_t offset, vi column[4]) {
    vi a[4];
    for (int i = 0; i < 4; i++) {
#define QUARTER(q) _mm_loadu_si128((const __m128i *)(const void *)((const char *)row[i + 4 * (q)] + offset))
        a[i] = _mm512_castsi128_si512(QUARTER(0));
        a[i] = _mm512_inserti32x4(a[i], QUARTER(1), 1);
        a[i] = _mm512_inserti32x4(a[i], QUARTER(2), 2);
        a[i] = _mm512_inserti32x4(a[i], QUARTER(3), 3);
#undef QUARTER
    }
    vi low01 = _mm512_unpacklo_epi32(a[0], a[1]), high01 = _mm512_unpackhi_epi32(a[0], a[1]);
    vi low23 = _mm512_unpacklo_epi32(a[2], a[3]), high23 = _mm512_unpackhi_epi32(a[2], a[3]);
    column[0] = _mm512_unpacklo_epi64(low01, low23);
    column[1] = _mm512_unpackhi_epi64(low01, low23);
    column[2] = _mm512_unpacklo_epi64(high01, high23);
    column[3] = _mm512_unpackhi_epi64(high01, high23);
}

#endif
