/* rounded_rows.cu - rows of x as weights of a checkpoint want them: rounded to 8 bits as ref/weights/x_rounding.c does, and to
 * the type of x again, or in another order. */
#include "blocks.cuh"
#include "norm.cuh"
#include "x_rounding.cuh"

namespace sac::blocks {

using namespace sac::rows;

/* A row has one scale, its own or everybody's. A thread reads the elements that it writes, so y may be x. */
template <typename T, int V>
static __global__ void __launch_bounds__(NORM_THREADS, 3) round_rows_kernel(const rounded_job j) {
    __shared__ uint32_t part[32];
    const bool is_int8 = rounds_to_int8(j.how);
    const int64_t row = norm_row(j.x.rows);
    const int n_vec = (int)(j.x.cols / V);
    start_next();
    wait_for_last();
    if (row < 0) return;
    const T *x = (const T *)j.x.data + row * j.x.stride;
    T *y = (T *)j.y.data + row * j.y.stride;
    raw<T, V> now[NORM_VECTORS];
    load_row<T, V>(now, x, n_vec);
    float scale = j.scale;
    if (!is_static(j.how)) {
        uint32_t largest = 0;
        for_row<T, V>(now, x, n_vec, [&](const float *e, int) {
#pragma unroll
            for (int i = 0; i < V; i++) largest = max(largest, magnitude(e[i]));
        });
        scale = scale_of(block_largest(largest, part), is_int8);
    }
    for_row<T, V>(now, x, n_vec, [&](const float *e, int at) {
        float o[V];
#pragma unroll
        for (int i = 0; i < V; i++) o[i] = rounded(e[i], scale, is_int8);
        store<V>(y + at, o);
    });
}

/* A scale for each group: a warp has one, FOUR elements of it a lane at a time. */
enum { FOUR = 4 };
template <typename T>
static __global__ void __launch_bounds__(ROUNDED_THREADS) round_groups_kernel(const rounded_job j) {
    const int64_t group = (int64_t)blockIdx.x * (ROUNDED_THREADS / 32) + threadIdx.x / 32,
                  from = group * j.group + threadIdx.x % 32, end = min((group + 1) * j.group, j.x.cols);
    start_next();
    wait_for_last();
    const T *x = (const T *)j.x.data + blockIdx.y * j.x.stride;
    T *y = (T *)j.y.data + blockIdx.y * j.y.stride;
    float e[FOUR];
    uint32_t largest = 0;
    for (int64_t i = from; i < end; i += 32 * FOUR) {
#pragma unroll
        for (int v = 0; v < FOUR; v++) {
            e[v] = i + 32 * v < end ? to_f32(x[i + 32 * v]) : 0;
            largest = max(largest, magnitude(e[v]));
        }
    }
    const float scale = scale_of(__reduce_max_sync(~0u, largest), false);
    const bool at_once = j.group <= 32 * FOUR;
    for (int64_t i = from; i < end; i += 32 * FOUR) {
#pragma unroll
        for (int v = 0; v < FOUR; v++)
            if (i + 32 * v < end)
                y[i + 32 * v] = from_f32<T>(rounded(at_once ? e[v] : to_f32(x[i + 32 * v]), scale, false));
    }
}

template <typename T> static sac_status round_rows(const sac_stream *s, const rounded_job &j) {
    if (j.how == SAC_X_FP8_GROUPS) {
        const dim3 grid((unsigned)ceil_div(ceil_div(j.x.cols, j.group), ROUNDED_THREADS / 32),
                        (unsigned)j.x.rows);
        return grid.y > 65535 ? SAC_UNSUPPORTED
                              : launch(s, early({grid, ROUNDED_THREADS}), round_groups_kernel<T>, j);
    }
    const bool wide = mat_aligned(j.x) && mat_aligned(j.y);
    const dim3 threads = norm_threads(j.x.cols / (wide ? 8 : 1));
    return launch(s, early({(unsigned)ceil_div(j.x.rows, threads.y), threads}),
                  wide ? round_rows_kernel<T, 8> : round_rows_kernel<T, 1>, j);
}

template <typename T>
static __global__ void __launch_bounds__(ROUNDED_THREADS) ordered_kernel(const rounded_job j) {
    const T *x = (const T *)j.x.data + (int64_t)blockIdx.x * j.x.stride;
    T *y = (T *)j.y.data + (int64_t)blockIdx.x * j.y.stride;
    start_next();
    wait_for_last();
    for (int64_t i = (int64_t)blockIdx.y * ROUNDED_THREADS + threadIdx.x; i < j.x.cols;
         i += (int64_t)gridDim.y * ROUNDED_THREADS)
        y[i] = x[j.order[i]];
}

sac_status rounded_rows(const sac_stream *s, const rounded_job &j) {
    if (!j.x.rows) return SAC_OK;
    if (j.order && j.how) return SAC_UNSUPPORTED;
    if (!j.order) return j.x.dtype == SAC_DTYPE_F16 ? round_rows<half>(s, j) : round_rows<bf16>(s, j);
    const dim3 grid((unsigned)j.x.rows, (unsigned)min_of(ceil_div(j.x.cols, ROUNDED_THREADS), 64));
    return launch(s, early({grid, ROUNDED_THREADS}),
                  j.x.dtype == SAC_DTYPE_F16 ? ordered_kernel<half> : ordered_kernel<bf16>, j);
}

} // namespace sac::blocks
