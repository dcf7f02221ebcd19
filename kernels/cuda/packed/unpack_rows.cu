/* unpack_rows.cu - packed rows to numbers again. A block has sixteen rows of a head, a warp two of them, a lane
 * every 32nd channel: codes are whole numbers of few bits, so that products are exact and sums are rounded as
 * the reference's. */
#include "pack_ranges.cuh"
#include "packed.cuh"

namespace sac::packed {

enum { ROWS = 16, WARPS = 8 };

__device__ __forceinline__ float one_value(const sac_packed_rows &p, int head, int64_t row, int c) {
    int per_word = 32 / p.bits;
    int64_t n_words = (p.capacity + per_word - 1) / per_word;
    uint32_t word = p.v[(head * n_words + row / per_word) * p.head_dim + c];
    int64_t at = packed_value_param(p, head, c) + row;
    float x = __fadd_rn(__fmul_rn((float)packed_code(word, (int)(row % per_word), p.bits),
                                  packed_half(p.v_scale, at)),
                        packed_half(p.v_min, at));
    return p.v_channel ? __fmul_rn(x, packed_half(p.v_channel, head * p.head_dim + c)) : x;
}

template <typename T>
static __global__ void __launch_bounds__(WARPS * 32)
    unpack_kernel(pack_source to, sac_packed_rows p, int64_t from) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, head = blockIdx.y;
    for (int j = warp; j < ROWS; j += WARPS) {
        int64_t i = (int64_t)blockIdx.x * ROWS + j;
        if (i >= to.rows.n) return;
        int64_t at = source_at(to, head, i);
        for (int c = lane; c < p.head_dim; c += 32) {
            if (p.k) ((T *)to.k)[at + c] = from_f32<T>(packed_key(p, head, from + i, c));
            if (p.v) ((T *)to.v)[at + c] = from_f32<T>(one_value(p, head, from + i, c));
        }
    }
}

extern "C" sac_status sac_cuda_unpack_rows(const sac_stream *s, const sac_unpack_rows_args *a) {
    int64_t blocks = ceil_div(a->rows.n, ROWS);
    if (!is_float(a->kv.dtype) || blocks > INT32_MAX || a->p.n_heads > 65535) return SAC_UNSUPPORTED;
    if (blocks == 0) return SAC_OK;
    pack_source to = source_of(&a->kv, &a->rows);
    dim3 grid((unsigned)blocks, (unsigned)a->p.n_heads);
    BY_DTYPE(a->kv.dtype, return launch(s, {grid, WARPS * 32}, unpack_kernel<T>, to, a->p, a->from));
    return SAC_OK;
}

} // namespace sac::packed
