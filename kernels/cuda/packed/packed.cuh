/* packed.cuh - rows in 2, 4 or 8 bits inside a kernel; packed_rows.h has the layout. */
#ifndef SAC_KERNELS_PACKED_CUH
#define SAC_KERNELS_PACKED_CUH

#include "device.cuh"
extern "C" {
#include "packed_rows.h"
}

namespace sac::packed {

enum { PACKED_MAX_PARTS = 32 };

typedef struct packed_parts {
    int n;
    sac_packed_rows rows[PACKED_MAX_PARTS];
} packed_parts;

__device__ __forceinline__ float packed_half(const uint16_t *p, int64_t at) {
    return __half2float(__ushort_as_half(p[at]));
}
__device__ __forceinline__ uint32_t packed_code(uint32_t word, int i, int bits) {
    return word >> (i / 2 * bits + (i & 1 ? 16 : 0)) & ((1u << bits) - 1);
}

/* Place of the parameters of a key's channel, and of the values of a row. */
__device__ __forceinline__ int64_t packed_key_param(const sac_packed_rows &p, int head, int64_t row, int c) {
    if (p.k_group == 0) return head * p.capacity + row;
    int64_t n_groups = (p.capacity + p.k_group - 1) / p.k_group;
    return (head * n_groups + row / p.k_group) * p.head_dim + c;
}
__device__ __forceinline__ int64_t packed_value_param(const sac_packed_rows &p, int head, int c) {
    int64_t group = p.v_group >= p.head_dim
                        ? (int64_t)head * p.head_dim / p.v_group
                        : (int64_t)head * ((p.head_dim + p.v_group - 1) / p.v_group) + c / p.v_group;
    return group * p.capacity;
}

__device__ __forceinline__ float packed_key(const sac_packed_rows &p, int head, int64_t row, int c) {
    int per_word = 32 / p.bits, words = (p.head_dim + per_word - 1) / per_word;
    int64_t tile = row / SAC_PACKED_TILE * SAC_PACKED_TILE;
    int64_t width = min((int64_t)SAC_PACKED_TILE, p.capacity - tile);
    uint32_t word = p.k[(head * p.capacity + tile) * words + c / per_word * width + (row - tile)];
    int64_t at = packed_key_param(p, head, row, c);
    return (float)packed_code(word, c % per_word, p.bits) * packed_half(p.k_scale, at) +
           packed_half(p.k_min, at);
}

/* One channel of rows [row, row + N), a multiple of 16 from the start of the part; zeros from `n` on. */
template <int N>
__device__ __forceinline__ void packed_values(const sac_packed_rows &p, int head, int64_t row, int n, int c,
                                              float x[N]) {
    int per_word = 32 / p.bits;
    int64_t n_words = (p.capacity + per_word - 1) / per_word;
    const uint32_t *words = p.v + (head * n_words + row / per_word) * p.head_dim + c;
    int64_t at = packed_value_param(p, head, c) + row;
    float channel = p.v_channel ? packed_half(p.v_channel, head * p.head_dim + c) : 1;
    uint32_t word = 0;
#pragma unroll
    for (int i = 0; i < N; i++) {
        if (i % per_word == 0 && i < n) word = words[i / per_word * p.head_dim];
        x[i] = i < n ? ((float)packed_code(word, i % per_word, p.bits) * packed_half(p.v_scale, at + i) +
                        packed_half(p.v_min, at + i)) *
                           channel
                     : 0;
    }
}

} // namespace sac::packed

#endif
