/* digit_products.cuh - one row of x as whole numbers of 31 bits, and what a warp makes of them and a stretch of Q4_K, Q6_K or Q8_0: by
 * tensor cores' products of bytes, with exact whole sums.
 *
 * A code is a byte with few instructions (none for Q8_0, one for four codes of Q4_K), while numbers of 16 bits take about three times as
 * many (block_product.cuh), which at 4 TB/s is more than a processor issues. x is not rounded to bytes for it: of each stretch of 256
 * elements it becomes whole numbers of 31 bits below a power of two that the largest gives, and these four digits
 * d0 + 256 d1 + 65536 d2 + 2^24 d3 between -128 and 127. The product's second factor has eight columns and one row of x needs but one,
 * so each digit has a column of its own. So what is multiplied is x to 2^-30 of the largest of its stretch, or to 2^-26 in odd steps of 16
 * elements of the K types: Q4_K's codes stand in the high halves of bytes there and are taken as sixteen times what they are, x as a
 * sixteenth. A group's sums are whole, and so are those of a stretch, scales' whole numbers times them; floats begin where d and dmin come
 * in.
 *
 * Minima meet sums of x over their groups, which are digits as well: a product of their own, 16 x 8 x 16, once a stretch. Q6_K's 32,
 * which its codes are above what they stand for, goes with the scales likewise. */
#ifndef SAC_KERNELS_DIGIT_PRODUCTS_CUH
#define SAC_KERNELS_DIGIT_PRODUCTS_CUH

#include "block_stream.cuh"

namespace sac::blocks {

/* Digits of a stretch: [4 chunks][4 digits][4 lanes t][4 steps], a word of four elements each in the codes' order; those of odd chunks
 * have digits 0 and 1, 2 and 3 exchanged, so that lanes write to banks of their own. Then the digits of sums over 16 elements, as many
 * times smaller, [4 digits][16 sums] bytes, and what 1 of digit 0 stands for. */
enum { X_DIGITS = 1024, X_SUMS = 64, X_STRETCH = X_DIGITS + X_SUMS + 16 };

/* Formats that go this way. SUMS: whether they meet sums of x; HALVES: whether columns 4 to 7 have the second group of 32 elements. */
template <typename F> struct digits_of {
    enum { IS = 0 };
};
template <typename T> struct digits_of<q4_k<T>> {
    enum { IS = 1, SUMS = 1, HALVES = 0 };
};
template <typename T> struct digits_of<q6_k<T>> {
    enum { IS = 1, SUMS = 1, HALVES = 1 };
};
template <typename T> struct digits_of<q8_0<T>> {
    enum { IS = 1, SUMS = 0, HALVES = 0 };
};

/* Four digits of a whole number below 2^30, a byte each: what is taken off below comes on above. */
__device__ __forceinline__ uint32_t digits(float x) {
    return ((uint32_t)__float2int_rn(x) + 0x00808080u) ^ 0x00808080u;
}
/* Of four neighbours to words of one digit, in the order 0, 2, 1, 3. */
__device__ __forceinline__ void by_digit(const uint32_t d[4], uint32_t w[4]) {
    const uint32_t a = __byte_perm(d[0], d[2], 0x5140), b = __byte_perm(d[1], d[3], 0x5140),
                   c = __byte_perm(d[0], d[2], 0x7362), e = __byte_perm(d[1], d[3], 0x7362);
    w[0] = __byte_perm(a, b, 0x5410), w[1] = __byte_perm(a, b, 0x7632);
    w[2] = __byte_perm(c, e, 0x5410), w[3] = __byte_perm(c, e, 0x7632);
}
/* Of four lanes' four numbers each: lane t gets the sum of all four's number t. */
__device__ __forceinline__ float sums_of_four(const float x[4], int t) {
    const bool odd = t & 1, high = t & 2;
    const float a = (odd ? x[1] : x[0]) + __shfl_xor_sync(0xffffffffu, odd ? x[0] : x[1], 1),
                b = (odd ? x[3] : x[2]) + __shfl_xor_sync(0xffffffffu, odd ? x[2] : x[3], 1);
    return (high ? b : a) + __shfl_xor_sync(0xffffffffu, high ? a : b, 2);
}
/* Of each half a warp. */
__device__ __forceinline__ uint32_t half_warp_max(uint32_t x) {
#pragma unroll
    for (int by = 1; by < 16; by *= 2) x = max(x, __shfl_xor_sync(0xffffffffu, x, by));
    return x;
}

/* A lane's 16 elements of a stretch, `at` its first: four neighbours of each step, as they are stored; zeros behind k. */
struct lane_elements {
    uint32_t two[8];
};
template <typename T> __device__ __forceinline__ lane_elements take_elements(const stream_input &in, int at) {
    lane_elements l;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint2 v =
            at + 16 * i < in.k ? *(const uint2 *)((const T *)in.x + at + 16 * i) : make_uint2(0, 0);
        l.two[2 * i] = v.x, l.two[2 * i + 1] = v.y;
    }
    return l;
}
template <typename T> __device__ __forceinline__ void unpack_elements(const lane_elements &l, float e[16]) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const float2 v = unpack_two<T>(l.two[i]);
        e[2 * i] = v.x, e[2 * i + 1] = v.y;
    }
}
/* The largest magnitude, as a T's bits: those of numbers are in their order. */
__device__ __forceinline__ uint32_t largest_bits(const lane_elements &l) {
    uint32_t m = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) m = __vmaxu2(m, l.two[i] & 0x7fff7fffu);
    return max(m >> 16, m & 0xffffu);
}
/* What they are multiplied with. */
__device__ __forceinline__ void take_factors(const stream_input &in, int at, float g[16]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float4 v =
            at + 16 * i < in.k ? *(const float4 *)(in.norm + at + 16 * i) : make_float4(0, 0, 0, 0);
        g[4 * i] = v.x, g[4 * i + 1] = v.y, g[4 * i + 2] = v.z, g[4 * i + 3] = v.w;
    }
}

/* x's digits to shared memory; normalised and rounded to T first where the job wants that. Half a warp has a stretch, a lane those four
 * elements of each step that it takes in products, which it asks for a stretch ahead. The first one's factors come while the kernel before is
 * at work. */
template <typename T, bool HAS_SUMS>
__device__ __forceinline__ void take_digits(const stream_input &in, uint8_t *to, float *part) {
    const int lane = threadIdx.x % 32, t = lane % 4, chunk = lane / 4 % 4,
              within = chunk * SAC_BLOCK_CHUNK + 4 * t, first = (int)threadIdx.x / 16,
              n = (int)blockDim.x / 16;
    float e[16], g[16], scale = 1;
    if (in.norm) {
        take_factors(in, first * STRETCH + within, g);
        for (int i = (first + n) * STRETCH + within; i < in.k; i += n * STRETCH) fetch_soon(in.norm + i);
    }
    wait_for_last();
    lane_elements next = take_elements<T>(in, first * STRETCH + within);
    if (in.norm) {
        lane_elements one = next;
        float sum = 0;
        for (int s = first; s < in.n_stretches; s += n) {
            if (s > first) one = take_elements<T>(in, s * STRETCH + within);
            unpack_elements<T>(one, e);
#pragma unroll
            for (int i = 0; i < 16; i++) sum += e[i] * e[i];
        }
        scale = 1.0f / sqrtf(block_sum(sum, part) / (float)in.k + in.eps);
    }
    for (int two = first & ~1; two < in.n_stretches; two += n) { /* a warp's */
        const int s = two + lane / 16, at = s * STRETCH + within;
        uint8_t *here = to + s * X_STRETCH;
        lane_elements now = next;
        next = take_elements<T>(in, at + n * STRETCH);
        if (in.norm) {
            if (s > first) take_factors(in, at, g);
            unpack_elements<T>(now, e);
#pragma unroll
            for (int i = 0; i < 8; i++)
                now.two[i] = pack<T>(e[2 * i] * scale * g[2 * i], e[2 * i + 1] * scale * g[2 * i + 1]);
        }
        const uint32_t largest = __float_as_uint(unpack_two<T>(half_warp_max(largest_bits(now))).x);
        unpack_elements<T>(now, e);
        /* to between 2^29 and 2^30; what is below 2^-97 stays smaller */
        const uint32_t power = max(largest >> 23, 30u);
        const float up = __uint_as_float((283u - power) << 23), up_odd = HAS_SUMS ? up * 0x1p-4f : up;
        uint32_t w[4][4]; /* of each step, digit by digit */
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t d[4];
#pragma unroll
            for (int j = 0; j < 4; j++) d[j] = digits(e[4 * i + j] * (i % 2 ? up_odd : up));
            by_digit(d, w[i]);
        }
        uint32_t of_sum = 0;
        if constexpr (HAS_SUMS) {
            float of_step[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                of_step[i] = (e[4 * i] + e[4 * i + 1]) + (e[4 * i + 2] + e[4 * i + 3]);
            of_sum = digits(sums_of_four(of_step, t) * (up * 0x1p-4f));
        }
        if (s >= in.n_stretches) break; /* all of the warp are through */
#pragma unroll
        for (int d = 0; d < 4; d++)
            *(uint4 *)(here + chunk * 256 + (d ^ (chunk & 1)) * 64 + t * 16) =
                make_uint4(w[0][d], w[1][d], w[2][d], w[3][d]);
        if constexpr (HAS_SUMS) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                here[X_DIGITS + 16 * i + 4 * chunk + t] = (uint8_t)(of_sum >> (8 * i));
        }
        if (lane % 16 == 0)
            *(float *)(here + X_DIGITS + X_SUMS) =
                largest < 0x7f800000u ? __uint_as_float((power - 29u) << 23) : CUDART_NAN_F;
    }
}

/* Where a lane finds its digits. */
struct digit_lane {
    int lane, t;
    int at[2];    /* of even and odd chunks */
    bool has_low; /* of columns 0 to 3 */

    __device__ explicit digit_lane(int l) : lane(l), t(l % 4), has_low(l < 16) {
        at[0] = l / 4 % 4 * 64 + t * 16;
        at[1] = at[0] ^ 64;
    }
    __device__ uint4 chunk(const uint8_t *x, int c) const {
        return *(const uint4 *)(x + c * 256 + at[c % 2]);
    }
    /* A word of sums; columns 4 to 7 have none. */
    __device__ uint32_t sums(const uint8_t *x) const {
        const uint32_t w = *(const uint32_t *)(x + X_DIGITS + lane / 4 % 4 * 16 + t * 4);
        return has_low ? w : 0;
    }
    __device__ float unit(const uint8_t *x) const { return *(const float *)(x + X_DIGITS + X_SUMS); }
};
/* Two digits' sums. */
__device__ __forceinline__ float joined(int low, int high) {
    return fmaf((float)high, 256.0f, (float)low);
}

/* Adds a tile's stretch to a lane's sums of rows g and g + 8, of its two digits. */
template <typename T>
__device__ __forceinline__ void add_digits(float y[2], uint8_t *stage, const uint8_t *x, const digit_lane &l,
                                           q4_k<T>) {
    const block_parts b = parts_in<q4_k<T>>(stage);
    const uint4 h[2] = {of_row<uint4>(b, SAC_BLOCK_SCALES, 0, l.lane),
                        of_row<uint4>(b, SAC_BLOCK_SCALES, 1, l.lane)};
    int sum[4] = {};
#pragma unroll
    for (int pair = 0; pair < 2; pair++) {
        const uint4 q[2] = {line_at(b.part[SAC_BLOCK_CODES], 0, pair, 2, l.lane),
                            line_at(b.part[SAC_BLOCK_CODES], 1, pair, 2, l.lane)};
        uint32_t scales[2];
#pragma unroll
        for (int r = 0; r < 2; r++)
            scales[r] =
                pair == 0 ? h[r].y & 0x3f3f3f3fu : (h[r].w & 0x0f0f0f0fu) | (h[r].y >> 2 & 0x30303030u);
#pragma unroll
        for (int i = 0; i < 4; i++) { /* groups */
            const uint4 d = l.chunk(x, 2 * pair + i / 2);
            const uint32_t w[2] = {word_of(q[0], i), word_of(q[1], i)};
            const uint32_t a[4] = {w[0] & 0x0f0f0f0fu, w[1] & 0x0f0f0f0fu, w[0] & 0xf0f0f0f0u,
                                   w[1] & 0xf0f0f0f0u};
            int of_group[4] = {};
            mma_signed_bytes<false>(of_group, a, i % 2 ? d.z : d.x, i % 2 ? d.w : d.y);
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const int scale = (int)__byte_perm(scales[r], 0, 0x4440u | (uint32_t)i);
                sum[2 * r] += scale * of_group[2 * r], sum[2 * r + 1] += scale * of_group[2 * r + 1];
            }
        }
    }
    uint32_t minima[2]; /* those of groups 2t and 2t + 1, each twice: sums are of 16 elements */
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const uint32_t all =
            l.t < 2 ? h[r].z & 0x3f3f3f3fu : (h[r].w >> 4 & 0x0f0f0f0fu) | (h[r].z >> 2 & 0x30303030u);
        minima[r] = __byte_perm(all, 0, l.t % 2 ? 0x3322u : 0x1100u);
    }
    int least[4] = {};
    mma_signed_bytes_16<false>(least, minima[0], minima[1], l.sums(x));
    const float unit = l.unit(x);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const float d = half_of(h[r].x, 0), dmin = half_of(h[r].x, 1) * -16.0f;
        y[r] = fmaf(
            unit, fmaf(dmin, joined(least[2 * r], least[2 * r + 1]), d * joined(sum[2 * r], sum[2 * r + 1])),
            y[r]);
    }
}

/* Byte i of v with its sign; s: sign_byte(i). */
__device__ __forceinline__ uint32_t sign_byte(int i) {
    return 0x8880u + 0x1111u * (uint32_t)i;
}
__device__ __forceinline__ int signed_byte(uint32_t v, uint32_t s) {
#ifdef __CUDA_ARCH__
    int r;
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(r) : "r"(v), "r"(s)); /* the function takes no signs */
    return r;
#else
    return (int8_t)(v >> 8 * (s & 7));
#endif
}
__device__ __forceinline__ uint32_t six_bits(uint32_t four, uint32_t high, int step) {
    return (four & 0x0f0f0f0fu) |
           ((step < 2 ? high << (4 - 2 * step) : high >> (2 * step - 4)) & 0x30303030u);
}

/* A group has 16 elements: columns 0 to 3 have those of even steps, 4 to 7 of odd ones. */
template <typename T>
__device__ __forceinline__ void add_digits(float y[2], uint8_t *stage, const uint8_t *x, const digit_lane &l,
                                           q6_k<T>) {
    const block_parts b = parts_in<q6_k<T>>(stage);
    const uint8_t *of_lane = b.part[SAC_BLOCK_SCALES] + l.lane / 4 * 16;
    int sum[4] = {};
    mma_signed_bytes_16<true>(sum, *(const uint32_t *)(of_lane + 4 * l.t),
                              *(const uint32_t *)(of_lane + 128 + 4 * l.t), l.sums(x));
#pragma unroll
    for (int i = 0; i < 4; i++) sum[i] *= -512; /* 32, and 16 for the sums' digits */
    const uint4 scales[2] = {*(const uint4 *)of_lane, *(const uint4 *)(of_lane + 128)};
    const uint4 high[2] = {line_at(b.part[SAC_BLOCK_HIGH], 0, 0, 1, l.lane),
                           line_at(b.part[SAC_BLOCK_HIGH], 1, 0, 1, l.lane)};
    const uint32_t which = sign_byte(l.t / 2);
#pragma unroll
    for (int pair = 0; pair < 2; pair++) {
        const uint4 q[2] = {line_at(b.part[SAC_BLOCK_CODES], 0, pair, 2, l.lane),
                            line_at(b.part[SAC_BLOCK_CODES], 1, pair, 2, l.lane)};
#pragma unroll
        for (int i = 0; i < 4; i++) { /* 32 elements each */
            const int c = 2 * pair + i / 2, step = i % 2 * 2;
            const uint4 d = l.chunk(x, c);
            uint32_t a[4];
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const uint32_t w = word_of(q[r], i), h = word_of(high[r], c);
                a[r] = six_bits(w, h, step), a[2 + r] = six_bits(w >> 4, h, step + 1);
            }
            const uint32_t first = i % 2 ? d.z : d.x, second = i % 2 ? d.w : d.y;
            int of_group[4] = {};
            mma_signed_bytes<false>(of_group, a, l.has_low ? first : 0, l.has_low ? 0 : second);
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const int scale = signed_byte(word_of(scales[r], c), which + 0x1111u * (uint32_t)step);
                sum[2 * r] += scale * of_group[2 * r], sum[2 * r + 1] += scale * of_group[2 * r + 1];
            }
        }
    }
    const float unit = l.unit(x);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const float d = half_of(of_row<uint16_t>(b, SAC_BLOCK_MORE, r, l.lane), 0);
        y[r] = fmaf(d * unit, joined(sum[2 * r], sum[2 * r + 1]), y[r]);
    }
}

/* Codes are bytes with signs. Scales are floats, so a group's sums, below 2^22, become floats at once: at the end of
 * 1.5 2^23's mantissa, where the product begins. */
template <typename T>
__device__ __forceinline__ void add_digits(float y[2], uint8_t *stage, const uint8_t *x, const digit_lane &l,
                                           q8_0<T>) {
    constexpr int ABOVE = 0x4b400000;
    constexpr float POWER = 12582912.0f;
    const block_parts b = parts_in<q8_0<T>>(stage);
    const uint4 scales[2] = {of_row<uint4>(b, SAC_BLOCK_SCALES, 0, l.lane),
                             of_row<uint4>(b, SAC_BLOCK_SCALES, 1, l.lane)};
    float sum[2] = {};
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const uint4 d = l.chunk(x, c), q[2] = {line_at(b.part[SAC_BLOCK_CODES], 0, c, CHUNKS, l.lane),
                                               line_at(b.part[SAC_BLOCK_CODES], 1, c, CHUNKS, l.lane)};
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t a[4] = {word_of(q[0], 2 * i), word_of(q[1], 2 * i), word_of(q[0], 2 * i + 1),
                                   word_of(q[1], 2 * i + 1)};
            int of_group[4] = {ABOVE, ABOVE, ABOVE, ABOVE};
            mma_signed_bytes<true>(of_group, a, i ? d.z : d.x, i ? d.w : d.y);
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const float low = __int_as_float(of_group[2 * r]) - POWER,
                            high = __int_as_float(of_group[2 * r + 1]) - POWER;
                sum[r] = fmaf(half_of(word_of(scales[r], c), i), fmaf(high, 256.0f, low), sum[r]);
            }
        }
    }
    const float unit = l.unit(x);
    y[0] = fmaf(unit, sum[0], y[0]), y[1] = fmaf(unit, sum[1], y[1]);
}

/* What a lane's sums count: digits 0 and 1 in lane 0 of four, 2 and 3 in lane 1; in lanes 2 and 3 those of odd steps where columns 4 to 7
 * have something. */
template <typename F> __device__ __forceinline__ float digit_weight(int t) {
    const float weight = t % 2 ? 65536.0f : 1.0f;
    return t < 2 ? weight : digits_of<F>::HALVES ? 16 * weight : 0.0f;
}

} // namespace sac::blocks

#endif
