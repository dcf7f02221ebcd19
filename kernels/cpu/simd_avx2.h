/* simd_avx2.h - the vector type of the kernel templates, 8 lanes. See simd.h for what each function does. */
#ifndef SAC_SIMD_AVX2_H
#define SAC_SIMD_AVX2_H

#include <immintrin.h>
#include <string.h>

typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm;
#define VF           8
#define SAC_ISA(fn)  fn##_avx2
#define SAC_ISA_TEXT "avx2"

static inline __m256i vf_first_lanes(int64_t n) {
    int count = n > 8 ? 8 : (int)n;
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline vf vf_zero(void) {
    return _mm256_setzero_ps();
}
static inline vf vf_set1(float x) {
    return _mm256_set1_ps(x);
}
static inline vf vf_load(const float *p) {
    return _mm256_loadu_ps(p);
}
static inline void vf_store(float *p, vf v) {
    _mm256_storeu_ps(p, v);
}
static inline vf vf_load_part(const float *p, int64_t n) {
    return n >= 8 ? vf_load(p) : _mm256_maskload_ps(p, vf_first_lanes(n));
}
static inline void vf_store_part(float *p, vf v, int64_t n) {
    if (n >= 8)
        vf_store(p, v);
    else
        _mm256_maskstore_ps(p, vf_first_lanes(n), v);
}
static inline vf vf_add(vf a, vf b) {
    return _mm256_add_ps(a, b);
}
static inline vf vf_sub(vf a, vf b) {
    return _mm256_sub_ps(a, b);
}
static inline vf vf_mul(vf a, vf b) {
    return _mm256_mul_ps(a, b);
}
static inline vf vf_div(vf a, vf b) {
    return _mm256_div_ps(a, b);
}
static inline vf vf_max(vf a, vf b) {
    return _mm256_max_ps(a, b);
}
static inline vf vf_min(vf a, vf b) {
    return _mm256_min_ps(a, b);
}
static inline vf vf_fma(vf a, vf b, vf c) {
    return _mm256_fmadd_ps(a, b, c);
}
static inline vf vf_fnma(vf a, vf b, vf c) {
    return _mm256_fnmadd_ps(a, b, c);
}
static inline vf vf_round(vf a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* Infinities leave a fraction of 0, as on AVX-512: only finite lanes may be subtracted. */
static inline vf vf_fraction(vf a) {
    vf f = _mm256_sub_ps(a, vf_round(a));
    vf infinite = _mm256_cmp_ps(_mm256_andnot_ps(vf_set1(-0.0f), a), vf_set1(__builtin_inff()), _CMP_EQ_OQ);
    return _mm256_andnot_ps(infinite, f);
}
/* a * 2^n in two factors, so that results near both ends of the range need no exponent out of it. */
static inline vf vf_scale2(vf a, vf n) {
    n = _mm256_max_ps(vf_set1(-252.0f), _mm256_min_ps(vf_set1(252.0f), n));
    __m256i e = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(e, 1), bias = _mm256_set1_epi32(127);
    __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    __m256i second = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(e, half), bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(a, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
}
static inline vf vf_abs(vf a) {
    return _mm256_andnot_ps(vf_set1(-0.0f), a);
}
static inline vf vf_select_negative(vf sign, vf if_negative, vf otherwise) {
    return _mm256_blendv_ps(otherwise, if_negative, sign);
}
static inline vf vf_keep_lanes(vf v, int64_t first, int64_t end, vf otherwise) {
    __m256i from = vf_first_lanes(first < 0 ? 0 : first), to = vf_first_lanes(end < 0 ? 0 : end);
    return _mm256_blendv_ps(otherwise, v, _mm256_castsi256_ps(_mm256_andnot_si256(from, to)));
}
static inline float vf_sum(vf a) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
/* sum[i] = vf_sum(a[i]), with the same bits: halves are added first, then pairs, then two lanes. */
static inline void vf_sum_four(const vf a[4], float sum[4]) {
    vf ab = _mm256_add_ps(_mm256_permute2f128_ps(a[0], a[1], 0x20), _mm256_permute2f128_ps(a[0], a[1], 0x31));
    vf cd = _mm256_add_ps(_mm256_permute2f128_ps(a[2], a[3], 0x20), _mm256_permute2f128_ps(a[2], a[3], 0x31));
    vf s = _mm256_add_ps(_mm256_unpacklo_ps(ab, cd), _mm256_unpackhi_ps(ab, cd));
    s = _mm256_add_ps(s, _mm256_permute_ps(s, 0x4e)); /* lanes 0 and 1: of a[0] and a[2]; 4 and 5: of a[1] and a[3] */
    _mm_storeu_ps(sum, _mm_unpacklo_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
}
/* Lane i = sum of a[i]'s lanes. */
static inline vf vf_sum_each(const vf a[8]) {
    vf low = _mm256_hadd_ps(_mm256_hadd_ps(a[0], a[1]), _mm256_hadd_ps(a[2], a[3]));
    vf high = _mm256_hadd_ps(_mm256_hadd_ps(a[4], a[5]), _mm256_hadd_ps(a[6], a[7]));
    return _mm256_add_ps(_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31));
}
static inline float vf_max_lane(vf a) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

/* AVX2 has no masked 16-bit load: a part of a vector goes through a small copy. */
static inline __m128i load_halves(const void *p, int64_t n) {
    uint16_t part[8] = {0};
    if (n >= 8) return _mm_loadu_si128((const __m128i *)p);
    memcpy(part, p, (size_t)n * 2);
    return _mm_loadu_si128((const __m128i *)part);
}
static inline void store_halves(void *p, __m128i v, int64_t n) {
    uint16_t part[8];
    _mm_storeu_si128((__m128i *)part, v);
    memcpy(p, part, (size_t)(n > 8 ? 8 : n) * 2);
}
static inline vf vf_load_f16(const void *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
static inline vf vf_load_bf16(const void *p) {
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
static inline vf vf_load_i8(const int8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
static inline vf vf_load_i8_part(const int8_t *p, int64_t n) {
    int8_t lanes[8] = {0};
    for (int64_t i = 0; i < n && i < 8; i++) lanes[i] = p[i];
    return vf_load_i8(lanes);
}
static inline vf vf_load_f16_part(const void *p, int64_t n) {
    return _mm256_cvtph_ps(load_halves(p, n));
}
static inline vf vf_load_bf16_part(const void *p, int64_t n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_halves(p, n)), 16));
}
static inline void vf_store_f16_part(void *p, vf v, int64_t n) {
    store_halves(p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), n);
}
/* Round to nearest even by integer arithmetic, as sac_f32_to_bf16; a NaN keeps its upper half, made quiet. */
static inline void vf_store_bf16_part(void *p, vf v, int64_t n) {
    __m256i u = _mm256_castps_si256(v);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i r = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    r = _mm256_blendv_epi8(r, _mm256_or_si256(u, _mm256_set1_epi32(0x400000)), nan);
    r = _mm256_srli_epi32(r, 16);
    store_halves(p, _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1)), n);
}

/* {c0 s0 c1 s1 ...} of n pairs into c and s */
static inline void vf_load_pairs(const float *p, int64_t n, vf *c, vf *s) {
    const __m256i order = _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7);
    vf lo = vf_load_part(p, 2 * n), hi = vf_zero();
    if (n > 4) hi = vf_load_part(p + 8, 2 * n - 8);
    *c = _mm256_permutevar8x32_ps(_mm256_shuffle_ps(lo, hi, 0x88), order);
    *s = _mm256_permutevar8x32_ps(_mm256_shuffle_ps(lo, hi, 0xdd), order);
}
/* {a b a b ...} */
static inline vf vf_alternate(vf a, vf b) {
    return _mm256_blend_ps(a, b, 0xaa);
}
/* Pairs (x0, x1) in v turned by the pairs (cos, sin) in cs */
static inline vf vf_rotate_pairs(vf v, vf cs) {
    vf swapped = _mm256_permute_ps(v, 0xb1);
    return _mm256_fmaddsub_ps(v, _mm256_moveldup_ps(cs), _mm256_mul_ps(swapped, _mm256_movehdup_ps(cs)));
}

static inline vi vi_load(const void *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}
static inline vi vi_load_part(const void *p, int64_t n) {
    return n >= 8 ? vi_load(p) : _mm256_maskload_epi32(p, vf_first_lanes(n));
}
static inline vi vf_bits(vf v) {
    return _mm256_castps_si256(v);
}
static inline vf vf_from_bits(vi v) {
    return _mm256_castsi256_ps(v);
}
/* f32 of the lower or upper 16-bit half of every lane */
static inline vf vf_bf16_low(vi v) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(v, 16));
}
static inline vf vf_bf16_high(vi v) {
    return _mm256_castsi256_ps(_mm256_and_si256(v, _mm256_set1_epi32((int)0xffff0000u)));
}
static inline vf vf_f16_high(vi v) {
    v = _mm256_srli_epi32(v, 16);
    return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
}
static inline vf vf_f16_low(vi v) {
    return vf_f16_high(_mm256_slli_epi32(v, 16));
}

/* Masks of lanes. A comparison with NaN is false. */
static inline vm vm_first(int64_t n) {
    return _mm256_castsi256_ps(vf_first_lanes(n));
}
static inline vm vf_at_least(vf a, vf b) {
    return _mm256_cmp_ps(a, b, _CMP_GE_OQ);
}
static inline vm vm_and(vm a, vm b) {
    return _mm256_and_ps(a, b);
}
static inline vm vm_or(vm a, vm b) {
    return _mm256_or_ps(a, b);
}
static inline vm vm_without(vm a, vm b) {
    return _mm256_andnot_ps(b, a);
}
static inline int vm_count(vm m) {
    return __builtin_popcount((unsigned)_mm256_movemask_ps(m));
}
static inline vf vf_choose(vm m, vf if_set, vf otherwise) {
    return _mm256_blendv_ps(otherwise, if_set, m);
}
/* Stores the lanes of `what` that the mask has together at `to`, which has room for a whole vector; returns
 * their number. AVX2 cannot do this with a whole vector. */
static inline int64_t vi_pack(void *to, vi what, vm m) {
    unsigned bits = (unsigned)_mm256_movemask_ps(m);
    uint32_t w[8], packed[16];
    int64_t n = 0;
    _mm256_storeu_si256((__m256i *)w, what);
    for (int i = 0; i < 8; i++) {
        packed[n] = w[i];
        n += bits >> i & 1;
    }
    memcpy(to, packed, 32);
    return n;
}
/* The same for the lanes whose lane of key is in [base, base + width). */
static inline int64_t vi_pack_range(void *to, vi what, vi key, uint32_t base, uint32_t width) {
    const vi low = _mm256_set1_epi32(INT32_MIN); /* AVX2 compares signed numbers only */
    vi offset = _mm256_sub_epi32(key, _mm256_set1_epi32((int)base));
    vi in = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(width ^ 0x80000000u)), _mm256_xor_si256(offset, low));
    return vi_pack(to, what, _mm256_castsi256_ps(in));
}
/* {first, first + 1 ...} */
static inline vi vi_count_from(int32_t first) {
    return _mm256_add_epi32(_mm256_set1_epi32(first), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* Four columns of 8 rows: lane i of column[j] = the j-th 32-bit number at row[i] + offset. Halves of a vector
 * are loaded from rows 4 apart, so what is left of the transposition stays within halves. */
static inline void vi_load_columns(const void *const row[8], size_t offset, vi column[4]) {
    vi a[4];
    for (int i = 0; i < 4; i++)
        a[i] = _mm256_loadu2_m128i((const __m128i *)(const void *)((const char *)row[i + 4] + offset),
                                   (const __m128i *)(const void *)((const char *)row[i] + offset));
    vi low01 = _mm256_unpacklo_epi32(a[0], a[1]), high01 = _mm256_unpackhi_epi32(a[0], a[1]);
    vi low23 = _mm256_unpacklo_epi32(a[2], a[3]), high23 = _mm256_unpackhi_epi32(a[2], a[3]);
    column[0] = _mm256_unpacklo_epi64(low01, low23);
    column[1] = _mm256_unpackhi_epi64(low01, low23);
    column[2] = _mm256_unpacklo_epi64(high01, high23);
    column[3] = _mm256_unpackhi_epi64(high01, high23);
}

#endif
