/* e4m3_units.cuh - what few_e4m3.cu and one_e4m3.cu share: 128 elements of two tiles of w for each of a block's warps, which
 * are a unit, and equal stretches of units for all blocks. */
#ifndef SAC_KERNELS_E4M3_UNITS_CUH
#define SAC_KERNELS_E4M3_UNITS_CUH

#include "block_product.cuh"

namespace sac::blocks {

/* A tile's part of a unit is codes and a word for each row. */
enum {
    E4M3_WARPS = 8,
    E4M3_TILES = 2,
    E4M3_THREADS = 32 * E4M3_WARPS,
    UNIT = 128,
    TILE_CODES = TILE * UNIT,
    E4M3_TILE_BYTES = TILE_CODES + 4 * TILE,
    E4M3_W_BYTES = E4M3_WARPS * E4M3_TILES * E4M3_TILE_BYTES
};

/* Codes of two elements each, bytes 0 and 1, and 2 and 3, as f16. */
__device__ __forceinline__ void e4m3_pairs(uint32_t w, uint32_t &low, uint32_t &high) {
#if __CUDA_ARCH__ >= 890
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.rn.f16x2.e4m3x2 %0, l; cvt.rn.f16x2.e4m3x2 %1, h;}"
        : "=r"(low), "=r"(high)
        : "r"(w));
#else
    const half2 power = __floats2half2_rn(256, 256);
    uint32_t a = e4m3_numbers<false>(__byte_perm(w, 0, 0x4140), half()),
             b = e4m3_numbers<false>(__byte_perm(w, 0, 0x4342), half());
    const half2 l = __hmul2(*(half2 *)&a, power), h = __hmul2(*(half2 *)&b, power);
    low = *(const uint32_t *)&l, high = *(const uint32_t *)&h;
#endif
}

/* Which block has a unit: block b has those from b total / blocks on. */
__device__ __forceinline__ int block_of(int unit, int total) {
    return (int)((((int64_t)unit + 1) * gridDim.x + total - 1) / total) - 1;
}

/* A warp's tiles of a unit, to a stage; b: their first stretch. */
__device__ __forceinline__ void ask_unit_of_tiles(uint8_t *stage, const block_parts b[E4M3_TILES], int unit) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, stretch = unit / 2, which = unit % 2;
    uint8_t *to = stage + warp * (E4M3_TILES * E4M3_TILE_BYTES);
#pragma unroll
    for (int i = 0; i < E4M3_TILES; i++) {
        const uint8_t *from =
            b[i].part[SAC_BLOCK_CODES] + stretch * (TILE * STRETCH) + which * 1024 + lane * 16;
#pragma unroll
        for (int l = 0; l < 4; l++) /* two chunks of rows g, then of rows g + 8 */
            copy_async(to + i * E4M3_TILE_BYTES + l * 512 + lane * 16, from + l / 2 * 2048 + l % 2 * 512,
                       true);
    }
    const int i = lane / 16, row = lane % 16;
    const uint8_t *words = i ? b[1].part[SAC_BLOCK_SCALES] : b[0].part[SAC_BLOCK_SCALES];
    copy_async_word(to + i * E4M3_TILE_BYTES + TILE_CODES + row * 4,
                    words + stretch * (TILE * 8) + row * 8 + which * 4, 4);
}

} // namespace sac::blocks

#endif
