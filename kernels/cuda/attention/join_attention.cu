/* join_attention.cu - attention over two disjoint sets of keys becomes that over both, by their
 * log-sum-exps. */
#include "device.cuh"

namespace sac::attention {

typedef struct join_job {
    void *o;
    const void *other;
    const float *lse, *other_lse;
    int64_t o_stride, other_stride, n_items;
    int n_heads, d;
} join_job;

/* V channels of a head a thread. */
template <typename T, int V> static __global__ void join_attention_kernel(join_job a) {
    start_next();
    wait_for_last();
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.n_items) return;
    int per_head = a.d / V;
    int64_t at = i / per_head, row = at / a.n_heads, col = at % a.n_heads * a.d + i % per_head * V;
    float x = a.lse[at], y = a.other_lse[at], max = fmaxf(x, y);
    if (max == -CUDART_INF_F) return;
    float u = expf(x - max), v = expf(y - max), f = 1 / (u + v), p[V], q[V];
    u *= f, v *= f;
    T *o = (T *)a.o + row * a.o_stride + col;
    load<V>(p, o);
    load<V>(q, (const T *)a.other + row * a.other_stride + col);
#pragma unroll
    for (int c = 0; c < V; c++) p[c] = u * p[c] + v * q[c];
    store<V>(o, p);
}

extern "C" sac_status sac_cuda_join_attention(const sac_stream *s, const sac_join_attention_args *a) {
    int64_t d = a->o.cols / a->n_heads;
    bool wide = d % 8 == 0 && mat_aligned(a->o) && mat_aligned(a->other);
    int64_t items = a->o.rows * a->o.cols / (wide ? 8 : 1);
    if (a->o.dtype != a->other.dtype || ceil_div(items, 256) > 1 << 30) return SAC_UNSUPPORTED;
    if (!items) return SAC_OK;
    join_job j = {a->o.data,       a->other.data, a->lse,     a->other_lse, a->o.stride,
                  a->other.stride, items,         a->n_heads, (int)d};
    dim3 grid((unsigned)ceil_div(items, 256));
    BY_DTYPE(a->o.dtype, return wide ? launch(s, early({grid, 256}), join_attention_kernel<T, 8>, j)
                                     : launch(s, early({grid, 256}), join_attention_kernel<T, 1>, j));
    return SAC_OK;
}

} // namespace sac::attention
