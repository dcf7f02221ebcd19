/* kv_store.cu - rows of keys and values into a cache, converted where its type differs. */
#include "rows.cuh"

namespace sac::rows {

/* blockIdx.z 0 moves keys, 1 values. */
template <typename T, int V>
static __global__ void kv_store_kernel(sac_kv_view kv, const T *k, const T *v, int64_t rows, int64_t n,
                                       int64_t k_stride, int64_t v_stride, int64_t first) {
    int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
    if (at >= n) return;
    const T *from = blockIdx.z ? v : k;
    T *to = (T *)(blockIdx.z ? kv.v : kv.k) + at / kv.head_dim * kv.head_stride + at % kv.head_dim;
    int64_t stride = blockIdx.z ? v_stride : k_stride;
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y)
        move<V>(to + (first + row) * kv.row_stride, from + row * stride + at);
}

static __global__ void kv_store_any_kernel(sac_kv_view kv, sac_mat k, sac_mat v, int64_t first) {
    int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= k.cols) return;
    sac_mat from = blockIdx.z ? v : k;
    int64_t to = at / kv.head_dim * kv.head_stride + at % kv.head_dim;
    for (int64_t row = blockIdx.y; row < from.rows; row += gridDim.y)
        store_any(kv.dtype, blockIdx.z ? kv.v : kv.k, to + (first + row) * kv.row_stride,
                  load_any(from.dtype, from.data, row * from.stride + at));
}

extern "C" sac_status sac_cuda_kv_store(const sac_stream *s, const sac_kv_store_args *a) {
    const sac_kv_view *kv = &a->kv;
    if (!is_float(a->k.dtype) || a->v.dtype != a->k.dtype || !is_float(kv->dtype)) return SAC_UNSUPPORTED;
    if (!a->k.rows) return SAC_OK;
    bool same = kv->dtype == a->k.dtype;
    bool wide = same && mat_aligned(a->k) && mat_aligned(a->v) && kv_aligned(kv);
    rows_grid g = rows_plan(a->k.rows, a->k.cols / (wide ? 8 : 1));
    g.blocks.z = 2;
    if (!same) {
        return launch(s, {g.blocks, g.threads}, kv_store_any_kernel, *kv, a->k, a->v, a->first);
    }
    BY_DTYPE(kv->dtype,
             return launch(s, {g.blocks, g.threads}, wide ? kv_store_kernel<T, 8> : kv_store_kernel<T, 1>,
                           *kv, (const T *)a->k.data, (const T *)a->v.data, a->k.rows, a->k.cols, a->k.stride,
                           a->v.stride, a->first));
    return SAC_OK;
}

} // namespace sac::rows
