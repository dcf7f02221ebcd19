/* block_rows.cuh - rows of blocks as f16 or bf16: for embeddings, and for products of more rows than block_product.cuh
 * takes. Four lanes have a stretch of a row. */
#ifndef SAC_KERNELS_BLOCK_ROWS_CUH
#define SAC_KERNELS_BLOCK_ROWS_CUH

#include "block_formats_256.cuh"
#include "block_formats_32.cuh"
#include "blocks.cuh"
#include "code_formats.cuh"
#include "mma.cuh"

namespace sac::blocks {

using namespace sac::weights;

enum { ROWS_THREADS = 128 };

template <typename T> __device__ __forceinline__ void put_four(T *to, const uint2 &v, bool on_lines) {
    const T *four = (const T *)&v;
    if (on_lines)
        *(uint2 *)to = v;
    else
        for (int i = 0; i < 4; i++) to[i] = four[i];
}

template <typename F>
static __global__ void __launch_bounds__(ROWS_THREADS) unpack_kernel(const unpack_job j) {
    typedef typename F::T T;
    const int t = threadIdx.x % 4, n_stretches = (int)j.layout.n_stretches;
    const int64_t share = ((int64_t)blockIdx.x * ROWS_THREADS + threadIdx.x) / 4, i = share / n_stretches;
    const int stretch = (int)(share - i * n_stretches);
    if (i >= j.y.rows) return;
    const int64_t row = j.ids ? j.ids[i] : j.first + i;
    typename F::share w;
    F::take(w, parts_at(j.w, j.layout, row / SAC_BLOCK_TILE, stretch), (int)(row % SAC_BLOCK_TILE / 8),
            (int)(row % 8 * 4 + t));
    T *to_row = (T *)j.y.data + i * j.y.stride;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            const int at = stretch * STRETCH + c * SAC_BLOCK_CHUNK + step * 16 + 4 * t;
            if (at >= j.y.cols) return; /* a multiple of 4 */
            uint32_t low, high;
            float d, m = 0;
            F::step(w, c, step, low, high);
            F::scale(w, c, step, d, m);
            const float2 a = unpack_two<T>(low), b = unpack_two<T>(high);
            const uint2 v = make_uint2(
                pack<T>(j.factor * fmaf(d, a.x - F::ABOVE, m), j.factor * fmaf(d, a.y - F::ABOVE, m)),
                pack<T>(j.factor * fmaf(d, b.x - F::ABOVE, m), j.factor * fmaf(d, b.y - F::ABOVE, m)));
            if (j.order) {
                const T *four = (const T *)&v;
                for (int e = 0; e < 4; e++) to_row[j.order[at + e]] = four[e];
            } else
                put_four(to_row + at, v, j.on_lines);
        }
    }
}

template <typename F> static sac_status run_unpack(const sac_stream *s, const unpack_job &j) {
    const int64_t n_threads = j.y.rows * j.layout.n_stretches * 4, blocks = ceil_div(n_threads, ROWS_THREADS);
    if (blocks > INT32_MAX) return SAC_UNSUPPORTED;
    return launch(s, {(unsigned)blocks, ROWS_THREADS}, unpack_kernel<F>, j);
}

} // namespace sac::blocks

/* What a format's file defines. */
#define SAC_BLOCK_KERNELS(name)                                                                              \
    namespace sac::blocks {                                                                                  \
    sac_status product_##name(const sac_stream *s, const product_job &j) {                                   \
        return j.x.dtype == SAC_DTYPE_F16 ? run_product<name<half>>(s, j) : run_product<name<bf16>>(s, j);   \
    }                                                                                                        \
    sac_status qkv_##name(const sac_stream *s, const qkv_product &j) {                                       \
        return j.x_type == SAC_DTYPE_F16 ? run_qkv<name<half>>(s, j) : run_qkv<name<bf16>>(s, j);            \
    }                                                                                                        \
    sac_status unpack_##name(const sac_stream *s, const unpack_job &j) {                                     \
        return j.y.dtype == SAC_DTYPE_F16 ? run_unpack<name<half>>(s, j) : run_unpack<name<bf16>>(s, j);     \
    }                                                                                                        \
    }

#endif
