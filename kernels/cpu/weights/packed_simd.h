/* packed_simd.h - numbers of 4 and 8 bits, packed in words, as vectors of floats. */
#ifndef SAC_PACKED_SIMD_H
#define SAC_PACKED_SIMD_H

#include "cpu/simd.h"

#if defined(__AVX512F__)

SAC_INLINE vf nibbles_to_float(vi words, vi shift) {
    return _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srlv_epi32(words, shift), _mm512_set1_epi32(15)));
}
/* Every lane its word: the first eight one, the others the next. */
SAC_INLINE vi words_of_eight(const uint8_t *p) {
    const __m512i from = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    return _mm512_permutexvar_epi32(
        from, _mm512_castsi128_si512(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
SAC_INLINE vf bytes_to_float(const uint8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
SAC_INLINE vf byte_of_words(vi words, int i) {
    return _mm512_cvtepi32_ps(
        _mm512_and_si512(_mm512_srli_epi32(words, (unsigned)(8 * i)), _mm512_set1_epi32(255)));
}
SAC_INLINE vf nibble_of_words(vi words, int i) {
    return _mm512_cvtepi32_ps(
        _mm512_and_si512(_mm512_srli_epi32(words, (unsigned)(4 * i)), _mm512_set1_epi32(15)));
}
/* v + add, of which the bits of `mask` count, for whole numbers */
SAC_INLINE vf add_within(vf v, int add, int mask) {
    vi sum = _mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(add));
    return _mm512_cvtepi32_ps(_mm512_and_si512(sum, _mm512_set1_epi32(mask)));
}
SAC_INLINE vf e4m3_to_float(const uint8_t *p) {
    vi b = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    vi size = _mm512_and_si512(b, _mm512_set1_epi32(0x7f)),
       sign = _mm512_slli_epi32(_mm512_xor_si512(b, size), 24);
    vf v = _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(size, 20)), _mm512_set1_ps(0x1p120f));
    __mmask16 is_nan = _mm512_cmpeq_epi32_mask(size, _mm512_set1_epi32(0x7f));
    v = _mm512_mask_mov_ps(v, is_nan, _mm512_set1_ps(__builtin_nanf("")));
    return _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(v), sign));
}
SAC_INLINE vf levels_of_nibbles(vi words, vi shift, const float *levels) {
    return _mm512_permutexvar_ps(_mm512_srlv_epi32(words, shift), _mm512_loadu_ps(levels));
}
SAC_INLINE vi shifts(int a, int b, int c, int d, int e, int f, int g, int h) {
    return _mm512_setr_epi32(a, b, c, d, e, f, g, h, a, b, c, d, e, f, g, h);
}

#else

SAC_INLINE vf nibbles_to_float(vi words, vi shift) {
    return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srlv_epi32(words, shift), _mm256_set1_epi32(15)));
}
SAC_INLINE vi words_of_eight(const uint8_t *p) {
    int32_t word;
    memcpy(&word, p, 4);
    return _mm256_set1_epi32(word);
}
SAC_INLINE vf bytes_to_float(const uint8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
SAC_INLINE vf byte_of_words(vi words, int i) {
    return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(words, 8 * i), _mm256_set1_epi32(255)));
}
SAC_INLINE vf nibble_of_words(vi words, int i) {
    return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(words, 4 * i), _mm256_set1_epi32(15)));
}
/* v + add, of which the bits of `mask` count, for whole numbers */
SAC_INLINE vf add_within(vf v, int add, int mask) {
    vi sum = _mm256_add_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(add));
    return _mm256_cvtepi32_ps(_mm256_and_si256(sum, _mm256_set1_epi32(mask)));
}
SAC_INLINE vf e4m3_to_float(const uint8_t *p) {
    vi b = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
    vi size = _mm256_and_si256(b, _mm256_set1_epi32(0x7f)),
       sign = _mm256_slli_epi32(_mm256_xor_si256(b, size), 24);
    vf v = _mm256_mul_ps(_mm256_castsi256_ps(_mm256_slli_epi32(size, 20)), _mm256_set1_ps(0x1p120f));
    vi is_nan = _mm256_cmpeq_epi32(size, _mm256_set1_epi32(0x7f));
    return _mm256_castsi256_ps(_mm256_or_si256(_mm256_or_si256(_mm256_castps_si256(v), is_nan), sign));
}
/* Bit 3 of an index says which half of the levels; permutes look at the lowest three. */
SAC_INLINE vf levels_of_nibbles(vi words, vi shift, const float *levels) {
    vi i = _mm256_srlv_epi32(words, shift);
    vf low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(levels), i),
       high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(levels + 8), i);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(i, 28)));
}
SAC_INLINE vi shifts(int a, int b, int c, int d, int e, int f, int g, int h) {
    return _mm256_setr_epi32(a, b, c, d, e, f, g, h);
}

#endif
#endif
