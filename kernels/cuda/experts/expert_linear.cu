/* expert_linear.cu - rows with their experts' matrices: the choice between the two products, and the one for a few rows,
 * where every matrix is read for about one row: a warp an output, straight from the weights. */
#include "experts.cuh"

namespace sac::experts {

enum { ROWS_WARPS = 8 };

/* V elements of w: of x's type where there are more than one. */
template <int V, typename W>
__device__ __forceinline__ void load_weights(float *x, const void *w, sac_dtype t, int64_t at) {
    if constexpr (V == 1)
        x[0] = load_any(t, w, at);
    else
        load<V>(x, (const W *)w + at);
}

template <typename T, int V>
static __global__ void expert_rows_kernel(sac_mat y, const T *x, int64_t x_stride, int k, matrices w,
                                          sac_dtype w_type, const int32_t *expert) {
    const int lane = threadIdx.x % 32;
    const int64_t out = (int64_t)blockIdx.x * ROWS_WARPS + threadIdx.x / 32;
    start_next();
    wait_for_last();
    if (out >= y.cols) return;
    for (int64_t row = blockIdx.y; row < y.rows; row += gridDim.y) {
        const int64_t from = expert[row] * w.distance + out * k;
        float sum = 0;
#pragma unroll 4
        for (int at = lane * V; at < k; at += 32 * V) {
            float a[V], b[V];
            load<V>(a, x + row * x_stride + at);
            load_weights<V, T>(b, w.first, w_type, from + at);
#pragma unroll
            for (int i = 0; i < V; i++) sum += a[i] * b[i];
        }
        sum = warp_sum(sum);
        if (lane == 0) store_any(y.dtype, y.data, row * y.stride + out, sum);
    }
}

sac_status expert_rows(const sac_stream *s, const sac_expert_linear_args *a, matrices w) {
    const sac_dtype t = a->w[0].tensor.dtype;
    const int64_t k = a->x.cols;
    const bool wide = t == a->x.dtype && mat_aligned(a->x) && is_aligned(w.first, k) && w.distance % 8 == 0;
    const launch_plan p = {
        dim3((unsigned)ceil_div(a->y.cols, ROWS_WARPS), (unsigned)min_of(a->y.rows, 32768)), ROWS_WARPS * 32};
    BY_DTYPE(a->x.dtype,
             return launch(s, early(p), wide ? expert_rows_kernel<T, 8> : expert_rows_kernel<T, 1>, a->y,
                           (const T *)a->x.data, a->x.stride, (int)k, w, t, a->expert));
    return SAC_OK;
}

/* Where the matrices are: the second and the last say whether they lie at even distances. */
static bool find_matrices(const sac_expert_linear_args *a, matrices *w) {
    const sac_weight *first = a->w, *last = a->w + (a->n_experts - 1) * a->w_step;
    const int64_t element = element_bytes(first->tensor.dtype), n = a->n_experts;
    const uint8_t *at = (const uint8_t *)first->tensor.data;
    const int64_t distance = n > 1 ? (const uint8_t *)a->w[a->w_step].tensor.data - at : 0;
    w->first = at;
    w->distance = distance / element;
    return first->format == SAC_WEIGHT_FLOATS && last->format == SAC_WEIGHT_FLOATS &&
           is_float(first->tensor.dtype) && last->tensor.dtype == first->tensor.dtype &&
           distance % element == 0 && (const uint8_t *)last->tensor.data - at == (n - 1) * distance;
}

extern "C" sac_status sac_cuda_expert_linear(const sac_stream *s, const sac_expert_linear_args *a) {
    matrices w;
    if (!find_matrices(a, &w) || a->x.cols > 1 << 30 || a->x.rows > 1 << 30 || !is_float(a->y.dtype))
        return SAC_UNSUPPORTED;
    if (!a->x.rows) return SAC_OK;
    if (a->x.rows >= 2 * (int64_t)a->n_experts && a->x.rows >= 32) {
        sac_status st = expert_tiles(s, a, w);
        if (st != SAC_UNSUPPORTED) return st;
    }
    return expert_rows(s, a, w);
}

} // namespace sac::experts
