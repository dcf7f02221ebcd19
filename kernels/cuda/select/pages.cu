/* pages.cu - pages of keys by the largest and smallest value of each channel, and the most that a query
 * can score in a page. */
#include "device.cuh"

namespace sac::select {

enum { THREADS = 256, KEYS_AT_ONCE = 8, PAGES_AT_ONCE = 4 };

typedef struct bounds_job {
    const void *k;
    void *bounds;
    int64_t k_row, k_head, b_row, b_head, page, first, n_items;
    int n_heads, d;
    sac_dtype to;
    bool same; /* the bounds are of the keys' type, on 16-byte lines where the keys are */
} bounds_job;

/* V channels of a page and head a thread: neighbours have neighbouring channels. */
template <typename T, int V> static __global__ void page_bounds_kernel(bounds_job a) {
    start_next();
    wait_for_last();
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.n_items) return;
    int per_head = a.d / V, c = (int)(i % per_head) * V, head = (int)(i / per_head % a.n_heads);
    int64_t page = a.first + i / per_head / a.n_heads;
    const T *k = (const T *)a.k + page * a.page * a.k_row + head * a.k_head + c;
    float max[V], min[V];
    load<V>(max, k);
    load<V>(min, k);
    for (int64_t row = 1; row < a.page; row += KEYS_AT_ONCE) {
        float x[KEYS_AT_ONCE][V];
#pragma unroll
        for (int j = 0; j < KEYS_AT_ONCE; j++) /* past the end: the last one again */
            load<V>(x[j], k + (row + j < a.page ? row + j : a.page - 1) * a.k_row);
#pragma unroll
        for (int j = 0; j < KEYS_AT_ONCE; j++)
#pragma unroll
            for (int v = 0; v < V; v++) {
                max[v] = x[j][v] > max[v] ? x[j][v] : max[v];
                min[v] = x[j][v] < min[v] ? x[j][v] : min[v];
            }
    }
    int64_t at = page * a.b_row + head * a.b_head + c;
    if (a.same) {
        store<V>((T *)a.bounds + at, max);
        store<V>((T *)a.bounds + at + a.d, min);
        return;
    }
#pragma unroll
    for (int v = 0; v < V; v++) {
        store_any(a.to, a.bounds, at + v, max[v]);
        store_any(a.to, a.bounds, at + a.d + v, min[v]);
    }
}

extern "C" sac_status sac_cuda_page_bounds(const sac_stream *s, const sac_page_bounds_args *a) {
    const sac_kv_view *kv = &a->kv, *b = &a->bounds;
    if (!is_float(kv->dtype) || !is_float(b->dtype)) return SAC_UNSUPPORTED;
    bool wide = keys_aligned(kv) && (b->dtype != kv->dtype || keys_aligned(b));
    int64_t items = a->n * kv->n_heads * (kv->head_dim / (wide ? 8 : 1));
    if (!items) return SAC_OK;
    if (ceil_div(items, THREADS) > 1 << 30) return SAC_UNSUPPORTED;
    bounds_job j = {
        kv->k,    b->k,  kv->row_stride, kv->head_stride, b->row_stride, b->head_stride,       a->page,
        a->first, items, kv->n_heads,    kv->head_dim,    b->dtype,      b->dtype == kv->dtype};
    dim3 grid((unsigned)ceil_div(items, THREADS));
    BY_DTYPE(kv->dtype, return wide ? launch(s, early({grid, THREADS}), page_bounds_kernel<T, 8>, j)
                                    : launch(s, early({grid, THREADS}), page_bounds_kernel<T, 1>, j));
    return SAC_OK;
}

typedef struct page_scores_job {
    float *scores;
    const void *bounds, *q;
    int64_t stride, row, head, n;
    int group, heads_per_kv, d;
    sac_dtype q_type;
} page_scores_job;

/* The bound is q+ . max + q- . min with q's positive and negative part, so the sum over heads is that of the
 * sums of their parts. A warp has some pages at a time. */
template <typename T, int V> static __global__ void page_scores_kernel(page_scores_job a) {
    extern __shared__ __align__(16) float parts[]; /* [2][d] */
    start_next();
    wait_for_last();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = blockIdx.y * a.group;
    for (int c = threadIdx.x; c < a.d; c += THREADS) {
        float above = 0, below = 0;
        for (int h = 0; h < a.group; h++) {
            float x = load_any(a.q_type, a.q, (int64_t)(first + h) * a.d + c);
            above += x > 0 ? x : 0;
            below += x < 0 ? x : 0;
        }
        parts[c] = above;
        parts[a.d + c] = below;
    }
    __syncthreads();
    const T *bounds = (const T *)a.bounds + first / a.heads_per_kv * a.head;
    int64_t each = (int64_t)gridDim.x * (THREADS / 32) * PAGES_AT_ONCE;
    for (int64_t page = ((int64_t)blockIdx.x * (THREADS / 32) + warp) * PAGES_AT_ONCE; page < a.n;
         page += each) {
        float sum[PAGES_AT_ONCE] = {0};
        for (int c = lane * V; c < 2 * a.d; c += 32 * V) {
            float q[V], x[PAGES_AT_ONCE][V];
            load<V>(q, parts + c);
#pragma unroll
            for (int p = 0; p < PAGES_AT_ONCE; p++) /* past the end: the last one again */
                load<V>(x[p], bounds + (page + p < a.n ? page + p : a.n - 1) * a.row + c);
#pragma unroll
            for (int p = 0; p < PAGES_AT_ONCE; p++)
#pragma unroll
                for (int v = 0; v < V; v++) sum[p] += q[v] * x[p][v];
        }
#pragma unroll
        for (int p = 0; p < PAGES_AT_ONCE; p++) sum[p] = warp_sum(sum[p]);
#pragma unroll
        for (int p = 0; p < PAGES_AT_ONCE; p++)
            if (lane == p && page + p < a.n) a.scores[blockIdx.y * a.stride + page + p] = sum[p];
    }
}

extern "C" sac_status sac_cuda_page_scores(const sac_stream *s, const sac_page_scores_args *a) {
    const sac_kv_view *b = &a->bounds;
    size_t shared = (size_t)b->head_dim * sizeof(float);
    if (!is_float(b->dtype) || !is_float(a->q.dtype) || shared > 48 << 10 || a->n_sums > 65535)
        return SAC_UNSUPPORTED;
    if (!a->n) return SAC_OK;
    page_scores_job j = {a->scores,
                         b->k,
                         a->q.data,
                         a->stride,
                         b->row_stride,
                         b->head_stride,
                         a->n,
                         a->n_heads / a->n_sums,
                         a->n_heads / b->n_heads,
                         b->head_dim / 2,
                         a->q.dtype};
    int64_t blocks = min_of(ceil_div(a->n, THREADS / 32 * PAGES_AT_ONCE),
                            ceil_div(s->device->n_processors * 4, a->n_sums));
    dim3 grid((unsigned)blocks, (unsigned)a->n_sums);
    bool wide = keys_aligned(b);
    BY_DTYPE(b->dtype, return wide ? launch(s, early({grid, THREADS, shared}), page_scores_kernel<T, 8>, j)
                                   : launch(s, early({grid, THREADS, shared}), page_scores_kernel<T, 1>, j));
    return SAC_OK;
}

} // namespace sac::select
