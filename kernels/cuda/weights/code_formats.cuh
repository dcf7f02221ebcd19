/* code_formats.cuh - code_layout.h's formats, as block_weights.cuh says. A word for each row and UNIT elements. */
#ifndef SAC_KERNELS_CODE_FORMATS_CUH
#define SAC_KERNELS_CODE_FORMATS_CUH

#include "block_tables.cuh"
#include "block_weights.cuh"

namespace sac::weights {

/* A row's words of a stretch. */
template <int UNIT> struct code_words {
    static const int N = STRETCH / UNIT;
    uint32_t word[N];

    __device__ __forceinline__ void take(const block_parts &b, int half, int lane) {
        const uint32_t *from = (const uint32_t *)b.part[SAC_BLOCK_SCALES] + (8 * half + lane / 4) * N;
        if constexpr (N == 2) {
            const uint2 v = *(const uint2 *)from;
            word[0] = v.x, word[1] = v.y;
        } else {
#pragma unroll
            for (int i = 0; i < N; i += 4) {
                const uint4 v = *(const uint4 *)(from + i);
                word[i] = v.x, word[i + 1] = v.y, word[i + 2] = v.z, word[i + 3] = v.w;
            }
        }
    }
    /* That of a chunk's step. */
    __device__ __forceinline__ uint32_t of(int c, int step) const {
        return word[(c * SAC_BLOCK_CHUNK + step * 16) / UNIT];
    }
};
/* A zero twice, one in each half, as codes are. */
__device__ __forceinline__ uint32_t zeros_of(uint32_t word) {
    return (word & 0xffu) * 0x00010001u;
}
__device__ __forceinline__ float scale_of_word(uint32_t word) {
    return __uint_as_float(word & 0xffffff00u);
}
/* Codes lie at the end of this power's mantissa. */
template <typename T> constexpr uint32_t code_power(void) {
    return __is_same(T, bf16) ? 0x43004300u : 0x64006400u;
}
/* Two codes of four bits less their zero, which has the power already. */
template <typename T> __device__ __forceinline__ uint32_t less_zero(uint32_t word, uint32_t zeros) {
    return difference(masked_over<0x000f000fu, code_power<T>()>(word), zeros, T());
}

template <typename NUMBER, int UNIT> struct code_format {
    typedef NUMBER T;
    enum { HIGH = 0, SCALES = SAC_BLOCK_TILE * 4 * STRETCH / UNIT, MORE = 0 };
    static const int SCALED = UNIT < SAC_BLOCK_CHUNK ? UNIT / 16 : STEPS; /* steps of one chunk */
    static const bool HAS_MINIMUM = false;
    static constexpr float ABOVE = 0;
};

template <typename NUMBER, int UNIT> struct code4 : code_format<NUMBER, UNIT> {
    enum { CODES = 2048 };
    struct share {
        uint2 codes[CHUNKS];
        code_words<UNIT> words;
    };
    static __device__ __forceinline__ void take(share &s, const block_parts &b, int half, int lane) {
        take_codes(s.codes, b, half, lane);
        s.words.take(b, half, lane);
    }
    static __device__ __forceinline__ void step(const share &s, int c, int step, uint32_t &low,
                                                uint32_t &high) {
        const uint32_t zeros = zeros_of(s.words.of(c, step)) | code_power<NUMBER>(),
                       w = (step < 2 ? s.codes[c].x : s.codes[c].y) >> (step % 2 * 4);
        low = less_zero<NUMBER>(w, zeros), high = less_zero<NUMBER>(w >> 8, zeros);
    }
    static __device__ __forceinline__ void scale(const share &s, int c, int step, float &d, float &) {
        d = scale_of_word(s.words.of(c, step));
    }
};

/* Codes and zeros within a byte each, so 16 bits of either type hold the difference. */
template <typename NUMBER, int UNIT> struct code8 : code_format<NUMBER, UNIT> {
    enum { CODES = 4096 };
    struct share {
        uint4 codes[CHUNKS];
        code_words<UNIT> words;
    };
    static __device__ __forceinline__ void take(share &s, const block_parts &b, int half, int lane) {
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) s.codes[c] = line_at(b.part[SAC_BLOCK_CODES], half, c, CHUNKS, lane);
        s.words.take(b, half, lane);
    }
    static __device__ __forceinline__ void step(const share &s, int c, int step, uint32_t &low,
                                                uint32_t &high) {
        const uint32_t w = word_of(s.codes[c], step),
                       zeros = signed_numbers(zeros_of(s.words.of(c, step)), NUMBER());
        low = difference(signed_numbers(w, NUMBER()), zeros, NUMBER());
        high = difference(signed_numbers(w >> 8, NUMBER()), zeros, NUMBER());
    }
    static __device__ __forceinline__ void scale(const share &s, int c, int step, float &d, float &) {
        d = scale_of_word(s.words.of(c, step));
    }
};

/* Two bytes of e4m3, in the low bytes of halves or, HIGH_BYTES, in the high: sign, exponent and mantissa to where T has them.
 * As f16 that is the value times 2^-8, numbers below 2^-6 included; as bf16 times 2^-120, so the exponent is put right. */
template <bool HIGH_BYTES> __device__ __forceinline__ uint32_t e4m3_numbers(uint32_t w, half) {
    return HIGH_BYTES ? (w & 0x7f007f00u) >> 1 | (w & 0x80008000u)
                      : (w & 0x007f007fu) << 7 | (w & 0x00800080u) << 8;
}
template <bool HIGH_BYTES> __device__ __forceinline__ uint32_t e4m3_numbers(uint32_t w, bf16) {
    const uint32_t bits = HIGH_BYTES ? (w & 0x7f007f00u) >> 4 | (w & 0x80008000u)
                                     : (w & 0x007f007fu) << 4 | (w & 0x00800080u) << 8,
                   power = 0x7b807b80u; /* 2^120 */
    const __nv_bfloat162 v = __hmul2(*(const __nv_bfloat162 *)&bits, *(const __nv_bfloat162 *)&power);
    return *(const uint32_t *)&v;
}

template <typename NUMBER, int UNIT> struct code_e4m3 : code8<NUMBER, UNIT> {
    typedef typename code8<NUMBER, UNIT>::share share;
    static __device__ __forceinline__ void step(const share &s, int c, int step, uint32_t &low,
                                                uint32_t &high) {
        const uint32_t w = word_of(s.codes[c], step);
        low = e4m3_numbers<false>(w, NUMBER()), high = e4m3_numbers<true>(w, NUMBER());
    }
    static __device__ __forceinline__ void scale(const share &s, int c, int step, float &d, float &) {
        d = __uint_as_float(s.words.of(c, step)) * (__is_same(NUMBER, half) ? 256.0f : 1.0f);
    }
};

/* Places among NF4's levels, which are rounded to T. */
template <typename NUMBER, int UNIT> struct code_nf4 : code4<NUMBER, UNIT> {
    typedef typename code4<NUMBER, UNIT>::share share;
    static const int MANTISSA = __is_same(NUMBER, bf16) ? 7 : 10, BIAS = __is_same(NUMBER, bf16) ? 127 : 15;
    static __device__ __forceinline__ void step(const share &s, int c, int step, uint32_t &low,
                                                uint32_t &high) {
        const uint32_t lower = look_up<nf4_table<MANTISSA, BIAS, false>>(s.codes[c], step),
                       upper = look_up<nf4_table<MANTISSA, BIAS, true>>(s.codes[c], step);
        low = __byte_perm(lower, upper, 0x6240u), high = __byte_perm(lower, upper, 0x7351u);
    }
    static __device__ __forceinline__ void scale(const share &s, int c, int step, float &d, float &) {
        d = __uint_as_float(s.words.of(c, step));
    }
};

/* Floats of 4 bits: places in mxfp4's table, which has them times two. */
template <typename NUMBER, int UNIT> struct code_e2m1 : code4<NUMBER, UNIT> {
    typedef typename code4<NUMBER, UNIT>::share share;
    static __device__ __forceinline__ void step(const share &s, int c, int step, uint32_t &low,
                                                uint32_t &high) {
        const uint32_t w = look_up<mxfp4_table>(s.codes[c], step);
        low = signed_numbers(w, NUMBER()), high = signed_numbers(w >> 8, NUMBER());
    }
    static __device__ __forceinline__ void scale(const share &s, int c, int step, float &d, float &) {
        d = 0.5f * __uint_as_float(s.words.of(c, step));
    }
};

template <typename NUMBER> struct c4_32 : code4<NUMBER, 32> {};
template <typename NUMBER> struct c4_64 : code4<NUMBER, 64> {};
template <typename NUMBER> struct c4_128 : code4<NUMBER, 128> {};
template <typename NUMBER> struct c8_32 : code8<NUMBER, 32> {};
template <typename NUMBER> struct c8_128 : code8<NUMBER, 128> {};
template <typename NUMBER> struct e4m3_128 : code_e4m3<NUMBER, 128> {};
template <typename NUMBER> struct nf4_32 : code_nf4<NUMBER, 32> {};
template <typename NUMBER> struct nf4_64 : code_nf4<NUMBER, 64> {};
template <typename NUMBER> struct e2m1_16 : code_e2m1<NUMBER, 16> {};
template <typename NUMBER> struct e2m1_32 : code_e2m1<NUMBER, 32> {};

} // namespace sac::weights

#endif
