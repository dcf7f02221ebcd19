/* even.cuh - tiles of turned rows inside a kernel; even_tiles.h has their layout. */
#ifndef SAC_KERNELS_EVEN_CUH
#define SAC_KERNELS_EVEN_CUH

#include "device.cuh"
extern "C" {
#include "even_tiles.h"
}

namespace sac::packed {

enum { EVEN_ROWS = SAC_EVEN_TILE };

/* Tiles with the places of a tile's parts, in bytes from its beginning. */
typedef struct even_run {
    uint8_t *at;
    int64_t n, bytes;
    int n_heads, d, k_bits, v_bits;
    int v, k_scale, k_min, factor, v_scale, v_min, v_channel; /* keys' words come first */
} even_run;

static inline even_run run_of(const sac_even_tiles &t) {
    even_run r = {};
    if (t.n == 0) return r;
    const sac_even_tile tile = sac_even_tile_at(&t, 0);
    auto place = [&](const void *p) { return (int)((const uint8_t *)p - t.at); };
    r.at = t.at, r.n = t.n;
    r.bytes = (int64_t)sac_even_tile_bytes(t.n_heads, t.head_dim, t.k_bits, t.v_bits);
    r.n_heads = t.n_heads, r.d = t.head_dim, r.k_bits = t.k_bits, r.v_bits = t.v_bits;
    r.v = place(tile.values.v);
    r.k_scale = place(tile.keys.k_scale), r.k_min = place(tile.keys.k_min), r.factor = place(tile.factor);
    r.v_scale = place(tile.values.v_scale), r.v_min = place(tile.values.v_min);
    r.v_channel = place(tile.values.v_channel);
    return r;
}

/* A tile's halves at one of these places: those of a head, n of each. */
__device__ __forceinline__ uint16_t *even_halves(const even_run &r, int64_t tile, int place, int head, int n) {
    return (uint16_t *)(r.at + tile * r.bytes + place) + head * n;
}
__device__ __forceinline__ float even_number(uint16_t h) {
    return __half2float(__ushort_as_half(h));
}

/* Code number c of a row of keys, and of a row's values at channel c. */
__device__ __forceinline__ uint32_t *even_key_word(const even_run &r, int64_t tile, int head, int row, int w) {
    int words = (r.d * r.k_bits + 31) / 32;
    return (uint32_t *)(r.at + tile * r.bytes) + (head * EVEN_ROWS + row / SAC_PACKED_TILE * SAC_PACKED_TILE) * words +
           w * SAC_PACKED_TILE + row % SAC_PACKED_TILE;
}
__device__ __forceinline__ uint32_t *even_value_word(const even_run &r, int64_t tile, int head, int w, int c) {
    return (uint32_t *)(r.at + tile * r.bytes + r.v) + (head * (EVEN_ROWS * r.v_bits / 32) + w) * r.d + c;
}
__device__ __forceinline__ float even_code(uint32_t word, int i, int bits) {
    return (float)(word >> (i / 2 * bits + (i & 1 ? 16 : 0)) & ((1u << bits) - 1));
}
/* As they are turned: keys without their rows' factors, values without their channels'. */
__device__ __forceinline__ float even_key(const even_run &r, int64_t tile, int head, int row, int c) {
    int per_word = 32 / r.k_bits;
    float code = even_code(*even_key_word(r, tile, head, row, c / per_word), c % per_word, r.k_bits);
    float scale = even_number(even_halves(r, tile, r.k_scale, head, r.d)[c]);
    return __fadd_rn(__fmul_rn(code, scale), even_number(even_halves(r, tile, r.k_min, head, r.d)[c]));
}
__device__ __forceinline__ float even_value(const even_run &r, int64_t tile, int head, int row, int c) {
    int per_word = 32 / r.v_bits;
    float code = even_code(*even_value_word(r, tile, head, row / per_word, c), row % per_word, r.v_bits);
    float scale = even_number(even_halves(r, tile, r.v_scale, head, EVEN_ROWS)[row]);
    return __fadd_rn(__fmul_rn(code, scale), even_number(even_halves(r, tile, r.v_min, head, EVEN_ROWS)[row]));
}

/* x H of one row in shared memory, by a warp, as sac_even_turn rounds it; by = 1 / sqrt(d). */
__device__ __forceinline__ void turn_row(float *x, int d, float by) {
    int lane = threadIdx.x % 32;
    for (int half = 1; half < d; half *= 2) {
        __syncwarp();
        for (int i = lane; i < d / 2; i += 32) {
            int at = i / half * 2 * half + i % half;
            float u = x[at], v = x[at + half];
            x[at] = __fadd_rn(u, v);
            x[at + half] = __fsub_rn(u, v);
        }
    }
    __syncwarp();
    for (int i = lane; i < d; i += 32) x[i] = __fmul_rn(x[i], by);
    __syncwarp();
}

} // namespace sac::packed

#endif
