/* pack_ranges.cuh - ranges and codes of packed rows inside a kernel. Every step rounds as the reference does,
 * so the bits are the reference's. */
#ifndef SAC_KERNELS_PACK_RANGES_CUH
#define SAC_KERNELS_PACK_RANGES_CUH

#include "device.cuh"
extern "C" {
#include "pack_rows.h"
}

namespace sac::packed {

typedef struct pack_source {
    const void *k, *v;
    int64_t row_stride, head_stride;
    sac_pack_rows rows;
} pack_source;

static pack_source source_of(const sac_kv_view *kv, const sac_pack_rows *rows) {
    return pack_source{kv->k, kv->v, kv->row_stride, kv->head_stride, *rows};
}

/* Where row i of a head's selection begins. */
__device__ __forceinline__ int64_t source_at(const pack_source &s, int head, int64_t i) {
    int64_t row =
        s.rows.first + (s.rows.rows ? s.rows.rows[(s.rows.n_lists > 1 ? head * s.rows.n : 0) + i] : i);
    return row * s.row_stride + head * s.head_stride;
}

/* ---------------------------------------------------------------- ranges */

__device__ __forceinline__ uint16_t bits_of(float x) {
    return __half_as_ushort(__float2half_rn(x));
}
__device__ __forceinline__ float number_of(uint16_t h) {
    return __half2float(__ushort_as_half(h));
}
__device__ __forceinline__ uint16_t half_down(float x) {
    uint16_t h = bits_of(x);
    if (number_of(h) <= x) return h;
    return (uint16_t)((h & 0x8000u) ? h + 1 : h == 0 ? 0x8001 : h - 1);
}
__device__ __forceinline__ uint16_t half_up(float x) { /* x >= 0 */
    uint16_t h = bits_of(x);
    return (uint16_t)(number_of(h) >= x ? h : h + 1);
}
/* sac_packed_range_of, rounding by rounding. */
__device__ __forceinline__ sac_packed_range range_of(float min, float max, int bits) {
    sac_packed_range r;
    r.min = half_down(__fadd_rn(min, 0.0f));
    float width = __fsub_rn(max, number_of(r.min)), levels = (float)((1 << bits) - 1);
    r.scale = half_up(__fdiv_rn(width, levels));
    if (__fmul_rn(number_of(r.scale), levels) < width) r.scale++;
    return r;
}
__device__ __forceinline__ uint32_t code_of(float x, float scale, float min, int bits) {
    float top = (float)((1 << bits) - 1);
    float u = scale > 0 ? __fadd_rn(__fdiv_rn(__fsub_rn(x, min), scale), 0.5f) : 0.0f;
    return (uint32_t)(u > 0 ? (u < top ? u : top) : 0);
}

/* Where code number i of a word lies. */
__device__ __forceinline__ int shift_of(int i, int bits) {
    return i / 2 * bits + (i & 1 ? 16 : 0);
}

/* Keys alone or values alone, rows to `to` of p and those after it. pack_keys.cu: keys with a range a row;
 * pack_groups.cu: keys with a range a channel for every k_group rows, values of any groups. */
sac_status cuda_pack_keys_by_row(const sac_stream *s, const sac_pack_rows_args *a);
sac_status cuda_pack_key_groups(const sac_stream *s, const sac_pack_rows_args *a);
sac_status cuda_pack_value_groups(const sac_stream *s, const sac_pack_rows_args *a);

} // namespace sac::packed

#endif
