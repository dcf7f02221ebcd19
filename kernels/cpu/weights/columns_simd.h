/* columns_simd.h - what columns_tmpl.h asks of vectors: nibbles and bytes of VF neighbouring outputs as floats. */
#ifndef SAC_COLUMNS_SIMD_H
#define SAC_COLUMNS_SIMD_H

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
SAC_INLINE vi shifts(int a, int b, int c, int d, int e, int f, int g, int h) {
    return _mm256_setr_epi32(a, b, c, d, e, f, g, h);
}

#endif
#endif
