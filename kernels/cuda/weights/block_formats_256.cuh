/* block_formats_256.cuh - GGUF's formats in blocks of 256, as block_weights.cuh says. */
#ifndef SAC_KERNELS_BLOCK_FORMATS_256_CUH
#define SAC_KERNELS_BLOCK_FORMATS_256_CUH

#include "block_tables.cuh"
#include "block_weights.cuh"

namespace sac::weights {

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
        s.head = of_row<uint4>(b, SAC_BLOCK_SCALES, half, lane);
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
        s.scales = of_row<uint4>(b, SAC_BLOCK_SCALES, half, lane);
        s.d = of_row<uint16_t>(b, SAC_BLOCK_MORE, half, lane);
    }
    static __device__ __forceinline__ void step(const share &s, int c, int step, uint32_t &low,
                                                uint32_t &high) {
        const uint32_t h = word_of(s.high, c);
        four_bits(s.codes[c], step, low, high);
        low |= (step < 2 ? h << (4 - 2 * step) : h >> (2 * step - 4)) & 0x00300030u;
        high |= h >> (4 + 2 * step) & 0x00300030u;
        low = numbers<32>(low, T()), high = numbers<32>(high, T());
    }
    static __device__ __forceinline__ void scale(const share &s, int c, int step, float &d, float &) {
        d = half_of(s.d, 0) * (float)(int8_t)(word_of(s.scales, c) >> (8 * step));
    }
};

/* The fifth bits apart. */
template <typename NUMBER> struct q5_k : q4_k<NUMBER> {
    typedef q4_k<NUMBER> four;
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

template <typename NUMBER> struct q2_k {
    typedef NUMBER T;
    enum { CODES = 1024, HIGH = 0, SCALES = 256, MORE = 64 };
    static const int SCALED = 1;
    static const bool HAS_MINIMUM = true;
    static constexpr float ABOVE = above<T>();
    struct share {
        uint4 codes, scales;
        uint32_t head; /* d and dmin */
    };
    static __device__ __forceinline__ void take(share &s, const block_parts &b, int half, int lane) {
        s.codes = line_at(b.part[SAC_BLOCK_CODES], half, 0, 1, lane);
        s.scales = of_row<uint4>(b, SAC_BLOCK_SCALES, half, lane);
        s.head = of_row<uint32_t>(b, SAC_BLOCK_MORE, half, lane);
    }
    static __device__ __forceinline__ void step(const share &s, int c, int step, uint32_t &low,
                                                uint32_t &high) {
        two_bits(word_of(s.codes, c), step, low, high);
        low = numbers_above(low, T()), high = numbers_above(high, T());
    }
    static __device__ __forceinline__ void scale(const share &s, int c, int step, float &d, float &m) {
        const uint32_t both = word_of(s.scales, c);
        d = byte_times(both & 0x0f0f0f0fu, step, half_of(s.head, 0));
        m = byte_times(both >> 4 & 0x0f0f0f0fu, step, -half_of(s.head, 1));
    }
};

template <typename NUMBER> struct q3_k {
    typedef NUMBER T;
    enum { CODES = 1024, HIGH = 512, SCALES = 192, MORE = 32 };
    static const int SCALED = 1;
    static const bool HAS_MINIMUM = false;
    static constexpr float ABOVE = 0;
    struct share {
        uint4 codes;
        uint2 third;
        uint3 scales;
        uint16_t d;
    };
    static __device__ __forceinline__ void take(share &s, const block_parts &b, int half, int lane) {
        s.codes = line_at(b.part[SAC_BLOCK_CODES], half, 0, 1, lane);
        s.third = take_bits(b, half, lane);
        s.scales = of_row<uint3>(b, SAC_BLOCK_SCALES, half, lane);
        s.d = of_row<uint16_t>(b, SAC_BLOCK_MORE, half, lane);
    }
    static __device__ __forceinline__ void step(const share &s, int c, int step, uint32_t &low,
                                                uint32_t &high) {
        two_bits(word_of(s.codes, c), step, low, high);
        add_bits<2>(s.third, c, step, low, high);
        low = numbers<4>(low, T()), high = numbers<4>(high, T());
    }
    /* Of a chunk's four groups at a time; exact, 32 above what they are too. */
    static __device__ __forceinline__ void scale(const share &s, int c, int step, float &d, float &) {
        const uint32_t low = (c % 2 ? s.scales.y : s.scales.x) >> (c / 2 * 4) & 0x0f0f0f0fu,
                       high = s.scales.z >> (2 * c) & 0x03030303u;
        const float whole = half_of(s.d, 0);
        d = fmaf(-32, whole, byte_times(low | high << 4, step, whole));
    }
};

/* Places in a table. */
template <typename NUMBER> struct iq4_xs {
    typedef NUMBER T;
    enum { CODES = 2048, HIGH = 0, SCALES = 128, MORE = 0 };
    static const int SCALED = 2;
    static const bool HAS_MINIMUM = false;
    static constexpr float ABOVE = 0;
    struct share {
        uint2 codes[CHUNKS];
        uint2 head; /* d and the high bits of scales, then their low bits */
    };
    static __device__ __forceinline__ void take(share &s, const block_parts &b, int half, int lane) {
        take_codes(s.codes, b, half, lane);
        s.head = of_row<uint2>(b, SAC_BLOCK_SCALES, half, lane);
    }
    static __device__ __forceinline__ void step(const share &s, int c, int step, uint32_t &low,
                                                uint32_t &high) {
        const uint32_t w = look_up<iq4_table>(s.codes[c], step);
        low = signed_numbers(w, T()), high = signed_numbers(w >> 8, T());
    }
    static __device__ __forceinline__ void scale(const share &s, int c, int step, float &d, float &) {
        const int i = 2 * c + step / 2;
        const uint32_t low = s.head.y >> (4 * i) & 15, high = s.head.x >> (16 + 2 * i) & 3;
        d = half_of(s.head.x, 0) * (float)((int)(low | high << 4) - 32);
    }
};

} // namespace sac::weights

#endif
