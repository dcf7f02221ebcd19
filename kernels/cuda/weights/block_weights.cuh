/* block_weights.cuh - GGUF's blocks in block_layout.h's order, as products and unpacking read them: from a tile's stretch
 * into a lane's share of a row, from there the codes of a step as exact whole numbers of T, two a word, and their scale and
 * minimum: w = scale code + minimum. What each format's numbers mean: kernels/ref/weights.
 *
 * A format is a struct with
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
/* Of four bits: two chunks a line. */
__device__ __forceinline__ void take_codes(uint2 codes[CHUNKS], const block_parts &b, int half, int lane) {
#pragma unroll
    for (int i = 0; i < CHUNKS / 2; i++) {
        const uint4 v = line_at(b.part[SAC_BLOCK_CODES], half, i, CHUNKS / 2, lane);
        codes[2 * i] = make_uint2(v.x, v.y), codes[2 * i + 1] = make_uint2(v.z, v.w);
    }
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

/* ---------------------------------------------------------------- formats */

template <typename NUMBER> struct q8_0 {
    typedef NUMBER T;
    enum { CODES = 4096, HIGH = 0, SCALES = 256, MORE = 0 };
    static const int SCALED = 2;
    static const bool HAS_MINIMUM = false;
    static constexpr float ABOVE = 0;
    struct share {
        uint4 codes[CHUNKS];
        uint32_t d[CHUNKS];
    };
    static __device__ __forceinline__ void take(share &s, const block_parts &b, int half, int lane) {
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) s.codes[c] = line_at(b.part[SAC_BLOCK_CODES], half, c, CHUNKS, lane);
        take_scales<1>(s.d, b, half, lane);
    }
    static __device__ __forceinline__ void step(const share &s, int c, int step, uint32_t &low,
                                                uint32_t &high) {
        const uint4 &q = s.codes[c];
        const uint32_t w = step == 0 ? q.x : step == 1 ? q.y : step == 2 ? q.z : q.w;
        low = signed_numbers(w, T()), high = signed_numbers(w >> 8, T());
    }
    static __device__ __forceinline__ void scale(const share &s, int c, int step, float &d, float &) {
        d = half_of(s.d[c], step / 2);
    }
};

template <typename NUMBER> struct q4_0 {
    typedef NUMBER T;
    enum { CODES = 2048, HIGH = 0, SCALES = 256, MORE = 0 };
    static const int SCALED = 2;
    static const bool HAS_MINIMUM = false;
    static constexpr float ABOVE = 0;
    struct share {
        uint2 codes[CHUNKS];
        uint32_t d[CHUNKS];
    };
    static __device__ __forceinline__ void take(share &s, const block_parts &b, int half, int lane) {
        take_codes(s.codes, b, half, lane);
        take_scales<1>(s.d, b, half, lane);
    }
    static __device__ __forceinline__ void step(const share &s, int c, int step, uint32_t &low,
                                                uint32_t &high) {
        four_bits(s.codes[c], step, low, high);
        low = numbers<8>(low, T()), high = numbers<8>(high, T());
    }
    static __device__ __forceinline__ void scale(const share &s, int c, int step, float &d, float &) {
        d = half_of(s.d[c], step / 2);
    }
};

template <typename NUMBER> struct q4_1 {
    typedef NUMBER T;
    enum { CODES = 2048, HIGH = 0, SCALES = 512, MORE = 0 };
    static const int SCALED = 2;
    static const bool HAS_MINIMUM = true;
    static constexpr float ABOVE = above<T>();
    struct share {
        uint2 codes[CHUNKS];
        uint32_t dm[2 * CHUNKS];
    };
    static __device__ __forceinline__ void take(share &s, const block_parts &b, int half, int lane) {
        take_codes(s.codes, b, half, lane);
        take_scales<2>(s.dm, b, half, lane);
    }
    static __device__ __forceinline__ void step(const share &s, int c, int step, uint32_t &low,
                                                uint32_t &high) {
        four_bits(s.codes[c], step, low, high);
        low = numbers_above(low, T()), high = numbers_above(high, T());
    }
    static __device__ __forceinline__ void scale(const share &s, int c, int step, float &d, float &m) {
        const uint32_t dm = s.dm[2 * c + step / 2];
        d = half_of(dm, 0), m = half_of(dm, 1);
    }
};

template <typename NUMBER> struct q4_k {
    typedef NUMBER T;
    enum { CODES = 2048, HIGH = 0, SCALES = 256, MORE = 0 };
    static const int SCALED = 2;
    static const bool HAS_MINIMUM = true;
    static constexpr float ABOVE = above<T>();
    struct share {
        uint2 codes[CHUNKS];
        uint4 head; /* d and dmin, then the bytes of scales */
    };
    static __device__ __forceinline__ void take(share &s, const block_parts &b, int half, int lane) {
        take_codes(s.codes, b, half, lane);
        s.head = *((const uint4 *)b.part[SAC_BLOCK_SCALES] + 8 * half + lane / 4);
    }
    static __device__ __forceinline__ void step(const share &s, int c, int step, uint32_t &low,
                                                uint32_t &high) {
        four_bits(s.codes[c], step, low, high);
        low = numbers_above(low, T()), high = numbers_above(high, T());
    }
    /* Of four groups at a time. */
    static __device__ __forceinline__ void scale(const share &s, int c, int step, float &d, float &m) {
        const uint4 &h = s.head;
        const uint32_t scales = c < 2 ? h.y & 0x3f3f3f3fu : (h.w & 0x0f0f0f0fu) | (h.y >> 2 & 0x30303030u);
        const uint32_t minima =
            c < 2 ? h.z & 0x3f3f3f3fu : (h.w >> 4 & 0x0f0f0f0fu) | (h.z >> 2 & 0x30303030u);
        const int i = c % 2 * 2 + step / 2;
        d = byte_times(scales, i, half_of(h.x, 0)), m = byte_times(minima, i, -half_of(h.x, 1));
    }
};

template <typename NUMBER> struct q6_k {
    typedef NUMBER T;
    enum { CODES = 2048, HIGH = 1024, SCALES = 256, MORE = 32 };
    static const int SCALED = 1;
    static const bool HAS_MINIMUM = false;
    static constexpr float ABOVE = 0;
    struct share {
        uint2 codes[CHUNKS];
        uint4 high, scales;
        uint16_t d;
    };
    static __device__ __forceinline__ void take(share &s, const block_parts &b, int half, int lane) {
        take_codes(s.codes, b, half, lane);
        s.high = line_at(b.part[SAC_BLOCK_HIGH], half, 0, 1, lane);
        s.scales = *((const uint4 *)b.part[SAC_BLOCK_SCALES] + 8 * half + lane / 4);
        s.d = *((const uint16_t *)b.part[SAC_BLOCK_MORE] + 8 * half + lane / 4);
    }
    static __device__ __forceinline__ uint32_t word(const uint4 &v, int i) {
        return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
    }
    static __device__ __forceinline__ void step(const share &s, int c, int step, uint32_t &low,
                                                uint32_t &high) {
        const uint32_t h = word(s.high, c);
        four_bits(s.codes[c], step, low, high);
        low |= (step < 2 ? h << (4 - 2 * step) : h >> (2 * step - 4)) & 0x00300030u;
        high |= h >> (4 + 2 * step) & 0x00300030u;
        low = numbers<32>(low, T()), high = numbers<32>(high, T());
    }
    static __device__ __forceinline__ void scale(const share &s, int c, int step, float &d, float &) {
        d = half_of(s.d, 0) * (float)(int8_t)(word(s.scales, c) >> (8 * step));
    }
};

} // namespace sac::weights

#endif
