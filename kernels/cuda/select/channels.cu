/* channels.cu - which channels of a head carry its scores, and rows of a few of them. */
#include "context.cuh"

namespace sac::select {

enum {
    SUM_ROWS = 16 /* threads that share a column */,
    SUM_COLS = 32,
    ROWS_OF_A_SPLIT = 512,
    MOST_SPLITS = 64
};

typedef struct channel_sums_job {
    float *sums; /* [splits][cols] */
    const void *q, *k;
    int64_t rows, each, q_stride, k_row, k_head;
    int cols, d, group;
    sac_dtype k_type;
} channel_sums_job;

/* A warp's lanes have neighbouring channels of a token; sixteen warps share the tokens of a split and meet in
 * order. */
template <typename T> static __global__ void channel_sums_kernel(channel_sums_job a) {
    __shared__ float part[SUM_ROWS][SUM_COLS];
    start_next();
    wait_for_last();
    int lane = threadIdx.x % SUM_COLS, warp = threadIdx.x / SUM_COLS, at = blockIdx.x * SUM_COLS + lane;
    int head = at / a.d, c = at % a.d;
    int64_t begin = blockIdx.y * a.each, end = begin + a.each < a.rows ? begin + a.each : a.rows;
    const T *q = (const T *)a.q + (int64_t)head * a.group * a.d + c;
    float sum = 0;
    for (int64_t row = begin + warp; row < end && at < a.cols; row += SUM_ROWS) {
        float k = fabsf(load_any(a.k_type, a.k, row * a.k_row + head * a.k_head + c)), of_row = 0;
#pragma unroll 8
        for (int h = 0; h < a.group; h++) of_row += fabsf(to_f32(q[row * a.q_stride + h * a.d]));
        sum += k * of_row;
    }
    part[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || at >= a.cols) return;
    for (int i = 1; i < SUM_ROWS; i++) sum += part[i][lane];
    a.sums[(int64_t)blockIdx.y * a.cols + at] = sum;
}

static __global__ void sum_splits_kernel(float *sums, const float *parts, int cols, int n_splits) {
    start_next();
    wait_for_last();
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    if (c >= cols) return;
    for (int i = 0; i < n_splits; i++) sum += parts[(int64_t)i * cols + c];
    sums[c] = sum;
}

extern "C" sac_status sac_cuda_channel_sums(const sac_stream *s, const sac_channel_sums_args *a) {
    const sac_kv_view *kv = &a->kv;
    size_t room;
    float *parts = (float *)scratch_rest(s, &room);
    int64_t cols = (int64_t)kv->n_heads * kv->head_dim, rows = a->q.rows;
    int64_t splits = max_of(1, min_of(MOST_SPLITS, ceil_div(rows, ROWS_OF_A_SPLIT)));
    if (!is_float(kv->dtype) || !is_float(a->q.dtype) || cols > 1 << 20 ||
        (size_t)(splits * cols) * sizeof(float) > room)
        return SAC_UNSUPPORTED;
    channel_sums_job j;
    j.sums = splits > 1 ? parts : a->sums;
    j.q = a->q.data, j.k = (const char *)kv->k + a->first * kv->row_stride * element_bytes(kv->dtype);
    j.rows = rows, j.each = ceil_div(rows, splits), j.q_stride = a->q.stride;
    j.k_row = kv->row_stride, j.k_head = kv->head_stride, j.k_type = kv->dtype;
    j.cols = (int)cols, j.d = kv->head_dim, j.group = a->n_heads / kv->n_heads;
    dim3 grid((unsigned)ceil_div(cols, SUM_COLS), (unsigned)splits), threads(SUM_ROWS * SUM_COLS);
    sac_status st = SAC_OK;
    BY_DTYPE(a->q.dtype, st = launch(s, early({grid, threads}), channel_sums_kernel<T>, j));
    if (st != SAC_OK || splits == 1) return st;
    return launch(s, early({(unsigned)ceil_div(cols, 128), 128}), sum_splits_kernel, a->sums,
                  (const float *)parts, (int)cols, (int)splits);
}

typedef struct pick_job {
    const void *from;
    void *to;
    const int32_t *channels;
    int64_t from_row, from_head, to_row, to_head, first, n_items;
    int n_heads, heads_of_set, r;
    sac_dtype from_type, to_type;
} pick_job;

/* A channel a thread. */
static __global__ void pick_channels_kernel(pick_job a) {
    start_next();
    wait_for_last();
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.n_items) return;
    int c = (int)(i % a.r), head = (int)(i / a.r % a.n_heads);
    int64_t row = a.first + i / a.r / a.n_heads;
    int channel = a.channels[head / a.heads_of_set * a.r + c];
    store_any(a.to_type, a.to, row * a.to_row + head * a.to_head + c,
              load_any(a.from_type, a.from, row * a.from_row + head * a.from_head + channel));
}

extern "C" sac_status sac_cuda_pick_channels(const sac_stream *s, const sac_pick_channels_args *a) {
    const sac_kv_view *to = &a->dst, *from = &a->src;
    int64_t items = a->n * to->n_heads * to->head_dim;
    if (!is_float(to->dtype) || !is_float(from->dtype) || ceil_div(items, 256) > 1 << 30)
        return SAC_UNSUPPORTED;
    if (!items) return SAC_OK;
    pick_job j = {
        from->k,         to->k,    a->channels, from->row_stride, from->head_stride,       to->row_stride,
        to->head_stride, a->first, items,       to->n_heads,      to->n_heads / a->n_sets, to->head_dim,
        from->dtype,     to->dtype};
    return launch(s, early({(unsigned)ceil_div(items, 256), 256}), pick_channels_kernel, j);
}

} // namespace sac::select
