/* block_weights.cuh - GGUF's blocks in block_layout.h's order, as products and unpacking read them: from a tile's stretch
 * into a lane's share of a row, from there the codes of a step as exact whole numbers of T, two a word, and their scale and
 * minimum: w = scale code + minimum. What each format's numbers mean: kernels/ref/weights.
 *
 * A format is a struct in block_formats_32.cuh or block_formats_256.cuh, by the size of its blocks, with
 *   T           f16 or bf16, what activations are in
 *   SCALED      steps of 16 elements that share a scale: 2 or 1
 *   HAS_MINIMUM whether there are minima
 *   ABOVE       what the numbers of a step are above the codes
 *   CODES, HIGH, SCALES, MORE   bytes of a tile's stretch
 *   share       what a lane has of a row's stretch
 *   take        takes it: rows g (half 0) or g + 8, lane 4g + t
 *   step        elements (4t, 4t + 1) and (4t + 2, 4t + 3) of a step of a chunk
 *   scale       of that step */
#ifndef SAC_KERNELS_BLOCK_WEIGHTS_CUH
#define SAC_KERNELS_BLOCK_WEIGHTS_CUH

#include "block_layout.h"
#include "device.cuh"

namespace sac::weights {

enum { STRETCH = SAC_BLOCK_STRETCH, CHUNKS = STRETCH / SAC_BLOCK_CHUNK, STEPS = SAC_BLOCK_CHUNK / 16 };

/* The parts of a tile's stretch, in whichever memory. */
struct block_parts {
    const uint8_t *part[SAC_N_BLOCK_PARTS];
};
/* Those of a matrix. */
__device__ __forceinline__ block_parts parts_at(const void *w, const sac_block_layout &l, int64_t tile,
                                                int64_t stretch) {
    block_parts b;
#pragma unroll
    for (int p = 0; p < SAC_N_BLOCK_PARTS; p++)
        b.part[p] = (const uint8_t *)w + l.at[p] + (tile * l.n_stretches + stretch) * l.bytes[p];
    return b;
}

/* ---------------------------------------------------------------- shares */

/* Line `line` of n for half the rows. */
__device__ __forceinline__ uint4 line_at(const uint8_t *part, int half, int line, int n, int lane) {
    return *((const uint4 *)part + (half * n + line) * 32 + lane);
}
__device__ __forceinline__ uint32_t word_of(const uint4 &v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}
/* Of four bits: two chunks a line. */
__device__ __forceinline__ void take_codes(uint2 codes[CHUNKS], const block_parts &b, int half, int lane) {
#pragma unroll
    for (int i = 0; i < CHUNKS / 2; i++) {
        const uint4 v = line_at(b.part[SAC_BLOCK_CODES], half, i, CHUNKS / 2, lane);
        codes[2 * i] = make_uint2(v.x, v.y), codes[2 * i + 1] = make_uint2(v.z, v.w);
    }
}
/* Bits apart, one an element. */
__device__ __forceinline__ uint2 take_bits(const block_parts &b, int half, int lane) {
    return *((const uint2 *)b.part[SAC_BLOCK_HIGH] + half * 32 + lane);
}
/* What each row has of a part, a T. */
template <typename T>
__device__ __forceinline__ T of_row(const block_parts &b, sac_layout_part part, int half, int lane) {
    return *((const T *)b.part[part] + 8 * half + lane / 4);
}
/* WORDS words a chunk for each row. */
template <int WORDS>
__device__ __forceinline__ void take_scales(uint32_t s[CHUNKS * WORDS], const block_parts &b, int half,
                                            int lane) {
    const uint4 *lines = (const uint4 *)b.part[SAC_BLOCK_SCALES] + (8 * half + lane / 4) * WORDS;
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        const uint4 v = lines[i];
        s[4 * i] = v.x, s[4 * i + 1] = v.y, s[4 * i + 2] = v.z, s[4 * i + 3] = v.w;
    }
}

/* ---------------------------------------------------------------- numbers */

__device__ __forceinline__ float half_of(uint32_t two, int which) {
    return __half2float(__ushort_as_half((unsigned short)(two >> (16 * which))));
}
/* Byte i of v as a number times d: the byte at the end of 2^23's mantissa. */
__device__ __forceinline__ float byte_times(uint32_t v, int i, float d) {
    return fmaf(__uint_as_float(__byte_perm(v, 0x4b000000u, 0x7650u | (uint32_t)i)), d, -8388608.0f * d);
}

__device__ __forceinline__ uint32_t difference(uint32_t a, uint32_t b, bf16) {
    __nv_bfloat162 d = __hsub2(*(__nv_bfloat162 *)&a, *(__nv_bfloat162 *)&b);
    return *(uint32_t *)&d;
}
__device__ __forceinline__ uint32_t difference(uint32_t a, uint32_t b, half) {
    half2 d = __hsub2(*(half2 *)&a, *(half2 *)&b);
    return *(uint32_t *)&d;
}
/* Two codes of four bits, one in each half, for products whose sums of x are made besides: in bf16 they may stay above
 * what they stand for, at the end of 128's mantissa. */
template <typename T> constexpr float above(void) {
    return __is_same(T, bf16) ? 128 : 0;
}

/* v & MASK | OVER in one instruction: with two constants the compiler makes two of it. */
template <uint32_t MASK, uint32_t OVER> __device__ __forceinline__ uint32_t masked_over(uint32_t v) {
#ifdef __CUDA_ARCH__
    uint32_t r;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(r) : "r"(v), "n"(MASK), "r"(OVER));
    return r;
#else
    return (v & MASK) | OVER;
#endif
}

/* Two codes below 128, one in each half, less ZERO: a code at the end of a power's mantissa, less that power. */
template <int ZERO> __device__ __forceinline__ uint32_t numbers(uint32_t codes, bf16 t) {
    constexpr uint32_t least = 0x4300u | ZERO; /* 128 and ZERO, a multiple of 1 there */
    return difference(codes | 0x43004300u, least | least << 16, t);
}
template <int ZERO> __device__ __forceinline__ uint32_t numbers(uint32_t codes, half t) {
    constexpr uint32_t least = 0x6400u | ZERO; /* 1024 and ZERO */
    return difference(codes | 0x64006400u, least | least << 16, t);
}
__device__ __forceinline__ uint32_t numbers_above(uint32_t codes, bf16) {
    return codes | 0x43004300u;
}
__device__ __forceinline__ uint32_t numbers_above(uint32_t codes, half t) {
    return numbers<0>(codes, t);
}
/* Two signed bytes, one in the low byte of each half. */
__device__ __forceinline__ uint32_t signed_numbers(uint32_t bytes, bf16 t) {
    return difference((bytes & 0x007f007fu) | 0x43004300u, (bytes & 0x00800080u) | 0x43004300u, t);
}
__device__ __forceinline__ uint32_t signed_numbers(uint32_t bytes, half t) {
    return difference(((bytes ^ 0x00800080u) & 0x00ff00ffu) | 0x64006400u, 0x64806480u, t);
}

/* The codes of four bits of a chunk's words, at the low ends of halves. */
__device__ __forceinline__ void four_bits(const uint2 &chunk, int step, uint32_t &low, uint32_t &high) {
    const uint32_t w = (step < 2 ? chunk.x : chunk.y) >> (step % 2 * 4);
    low = w & 0x000f000fu, high = w >> 8 & 0x000f000fu;
}
/* Those of two bits of a chunk's word. */
__device__ __forceinline__ void two_bits(uint32_t chunk, int step, uint32_t &low, uint32_t &high) {
    const uint32_t w = chunk >> (2 * step);
    low = w & 0x00030003u, high = w >> 8 & 0x00030003u;
}
/* Bits apart to bit AT of such codes. */
template <int AT>
__device__ __forceinline__ void add_bits(const uint2 &bits, int c, int step, uint32_t &low, uint32_t &high) {
    const uint32_t w = c < 2 ? bits.x : bits.y;
    const int i = c % 2 * 4 + step;
    low |= (i <= AT ? w << (AT - i) : w >> (i - AT)) & 0x00010001u << AT;
    high |= w >> (8 + i - AT) & 0x00010001u << AT;
}

/* Four bytes of a table of 16 that TABLE::word(0) to word(3) hold, at the places that a step's codes of four bits say. Three
 * bits of a place choose a byte of either half, the fourth one of the two; of four places at a time, which are two bytes' of
 * both steps that share them. */
template <typename TABLE> __device__ __forceinline__ uint32_t look_up(const uint2 &chunk, int step) {
    const uint32_t w = step < 2 ? chunk.x : chunk.y, within = w & 0x77777777u,
                   of_two = 0x32103210u | (w & 0x88888888u) >> 1;
    constexpr uint32_t t0 = TABLE::word(0), t1 = TABLE::word(1), t2 = TABLE::word(2), t3 = TABLE::word(3);
    const uint32_t first = __byte_perm(__byte_perm(t0, t1, within), __byte_perm(t2, t3, within), of_two),
                   last = __byte_perm(__byte_perm(t0, t1, within >> 16), __byte_perm(t2, t3, within >> 16),
                                      of_two >> 16);
    return __byte_perm(first, last, step % 2 ? 0x7531u : 0x6420u);
}

} // namespace sac::weights

#endif
