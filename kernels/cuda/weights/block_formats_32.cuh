/* block_formats_32.cuh - GGUF's formats in blocks of 32, as block_weights.cuh says. */
#ifndef SAC_KERNELS_BLOCK_FORMATS_32_CUH
#define SAC_KERNELS_BLOCK_FORMATS_32_CUH

#include "block_tables.cuh"
#include "block_weights.cuh"

namespace sac::weights {

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

/* The fifth bits apart. */
template <typename NUMBER> struct q5_0 : q4_0<NUMBER> {
    typedef q4_0<NUMBER> four;
    enum { HIGH = 512 };
    struct share : four::share {
        uint2 fifth;
    };
    static __device__ __forceinline__ void take(share &s, const block_parts &b, int half, int lane) {
        four::take(s, b, half, lane);
        s.fifth = take_bits(b, half, lane);
    }
    static __device__ __forceinline__ void step(const share &s, int c, int step, uint32_t &low,
                                                uint32_t &high) {
        four_bits(s.codes[c], step, low, high);
        add_bits<4>(s.fifth, c, step, low, high);
        low = numbers<16>(low, NUMBER()), high = numbers<16>(high, NUMBER());
    }
};

template <typename NUMBER> struct q5_1 : q4_1<NUMBER> {
    typedef q4_1<NUMBER> four;
    enum { HIGH = 512 };
    struct share : four::share {
        uint2 fifth;
    };
    static __device__ __forceinline__ void take(share &s, const block_parts &b, int half, int lane) {
        four::take(s, b, half, lane);
        s.fifth = take_bits(b, half, lane);
    }
    static __device__ __forceinline__ void step(const share &s, int c, int step, uint32_t &low,
                                                uint32_t &high) {
        four_bits(s.codes[c], step, low, high);
        add_bits<4>(s.fifth, c, step, low, high);
        low = numbers_above(low, NUMBER()), high = numbers_above(high, NUMBER());
    }
};

/* Places in a table. */
template <typename NUMBER> struct iq4_nl : q4_0<NUMBER> {
    static __device__ __forceinline__ void step(const typename q4_0<NUMBER>::share &s, int c, int step,
                                                uint32_t &low, uint32_t &high) {
        const uint32_t w = look_up<iq4_table>(s.codes[c], step);
        low = signed_numbers(w, NUMBER()), high = signed_numbers(w >> 8, NUMBER());
    }
};

template <typename NUMBER> struct mxfp4 {
    typedef NUMBER T;
    enum { CODES = 2048, HIGH = 0, SCALES = 128, MORE = 0 };
    static const int SCALED = 2;
    static const bool HAS_MINIMUM = false;
    static constexpr float ABOVE = 0;
    struct share {
        uint2 codes[CHUNKS];
        uint2 exponents; /* a byte a group */
    };
    static __device__ __forceinline__ void take(share &s, const block_parts &b, int half, int lane) {
        take_codes(s.codes, b, half, lane);
        s.exponents = of_row<uint2>(b, SAC_BLOCK_SCALES, half, lane);
    }
    static __device__ __forceinline__ void step(const share &s, int c, int step, uint32_t &low,
                                                uint32_t &high) {
        const uint32_t w = look_up<mxfp4_table>(s.codes[c], step);
        low = signed_numbers(w, T()), high = signed_numbers(w >> 8, T());
    }
    /* sac_mxfp4_scale: bits (e - 1) 2^23, and from 2^21 on below that; of the two the larger. */
    static __device__ __forceinline__ void scale(const share &s, int c, int step, float &d, float &) {
        const uint32_t e = (c < 2 ? s.exponents.x : s.exponents.y) >> (8 * (c % 2 * 2 + step / 2)) & 0xff,
                       least = 1u << 23;
        d = __uint_as_float(max(max(e << 23, least) - least, (e + 1) << 21));
    }
};

} // namespace sac::weights

#endif
