/* choice.cu - what lies between choosing rows and reading them: the mean query that votes, the list of rows,
 * and a step's rows side by side, turned to their places. */
#include "turn.cuh"

namespace sac::select {

enum { MEAN_ROWS = 16 /* threads that share a column */, MEAN_COLS = 32, MEAN_AT_ONCE = 8 };

/* A warp's lanes read neighbouring columns of a row; sixteen warps share the rows of a group and meet in
 * order. */
template <typename T>
static __global__ void mean_rows_kernel(float *y, const T *x, int64_t rows, int64_t cols, int64_t stride,
                                        float scale) {
    __shared__ float part[MEAN_ROWS][MEAN_COLS];
    start_next();
    wait_for_last();
    int lane = threadIdx.x % MEAN_COLS, warp = threadIdx.x / MEAN_COLS;
    int64_t c = (int64_t)blockIdx.x * MEAN_COLS + lane;
    x += blockIdx.y * rows * stride;
    float sum = 0;
    for (int64_t row = warp; row < rows && c < cols; row += MEAN_ROWS * MEAN_AT_ONCE) {
        float v[MEAN_AT_ONCE];
#pragma unroll
        for (int i = 0; i < MEAN_AT_ONCE; i++) { /* all asked for before the first answer */
            int64_t r = row + i * MEAN_ROWS;
            v[i] = r < rows ? to_f32(x[r * stride + c]) : 0;
        }
#pragma unroll
        for (int i = 0; i < MEAN_AT_ONCE; i++) sum += v[i];
    }
    part[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || c >= cols) return;
    for (int i = 1; i < MEAN_ROWS; i++) sum += part[i][lane];
    y[blockIdx.y * cols + c] = sum * scale;
}

enum { WIDE_LANES = 16, WIDE_COLS = WIDE_LANES * 8, WIDE_ROWS = 32 /* that share a column */ };

/* mean_rows_kernel for many columns of halves: a thread has eight of them. */
template <typename T>
static __global__ void __launch_bounds__(WIDE_LANES *WIDE_ROWS)
    mean_wide_rows_kernel(float *y, const T *x, int64_t rows, int64_t cols, int64_t stride, float scale) {
    __shared__ __align__(16) float part[WIDE_ROWS][WIDE_COLS];
    start_next();
    wait_for_last();
    int lane = threadIdx.x % WIDE_LANES, of = threadIdx.x / WIDE_LANES;
    int64_t first = (int64_t)blockIdx.x * WIDE_COLS, c = first + lane * 8;
    x += blockIdx.y * rows * stride + c;
    float sum[8] = {0};
    for (int64_t row = of; row < rows && c < cols; row += WIDE_ROWS * MEAN_AT_ONCE) {
        uint4 v[MEAN_AT_ONCE];
#pragma unroll
        for (int i = 0; i < MEAN_AT_ONCE; i++) {
            int64_t r = row + i * WIDE_ROWS;
            v[i] = r < rows ? *(const uint4 *)(x + r * stride) : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int i = 0; i < MEAN_AT_ONCE; i++)
#pragma unroll
            for (int j = 0; j < 8; j++) sum[j] += to_f32(((const T *)&v[i])[j]);
    }
    store<8>(&part[of][lane * 8], sum);
    __syncthreads();
    if (threadIdx.x >= WIDE_COLS || first + threadIdx.x >= cols) return;
    float all = 0;
    for (int i = 0; i < WIDE_ROWS; i++) all += part[i][threadIdx.x];
    y[blockIdx.y * cols + first + threadIdx.x] = all * scale;
}

template <typename T>
static sac_status mean_wide(const sac_stream *s, const sac_mean_rows_args *a, int64_t n_groups, float scale) {
    dim3 blocks((unsigned)ceil_div(a->x.cols, WIDE_COLS), (unsigned)n_groups);
    return launch(s, of_step({blocks, WIDE_LANES * WIDE_ROWS}), mean_wide_rows_kernel<T>, a->y,
                  (const T *)a->x.data, a->x.rows / n_groups, a->x.cols, a->x.stride, scale);
}

extern "C" sac_status sac_cuda_mean_rows(const sac_stream *s, const sac_mean_rows_args *a) {
    int64_t n_groups = max_of(1, a->n_groups);
    float scale = a->divisor != 0 ? a->scale / a->divisor : a->scale;
    if (n_groups > 65535) return SAC_UNSUPPORTED;
    if (is_half(a->x.dtype) && mat_aligned(a->x) &&
        a->x.cols * n_groups >= s->device->n_processors * WIDE_COLS)
        return a->x.dtype == SAC_DTYPE_F16 ? mean_wide<half>(s, a, n_groups, scale)
                                           : mean_wide<bf16>(s, a, n_groups, scale);
    dim3 blocks((unsigned)ceil_div(a->x.cols, MEAN_COLS), (unsigned)n_groups);
    BY_DTYPE(a->x.dtype,
             return launch(s, of_step({blocks, MEAN_ROWS * MEAN_COLS}), mean_rows_kernel<T>, a->y,
                           (const T *)a->x.data, a->x.rows / n_groups, a->x.cols, a->x.stride, scale));
    return SAC_OK;
}

static __global__ void choice_rows_kernel(sac_choice_rows_args a) {
    start_next();
    wait_for_last();
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, middle = i - a.init, list = blockIdx.y;
    int64_t n_middle = a.n_chosen * a.page, n = a.init + n_middle + a.local,
            n_rows = a.n_rows + list * a.n_more;
    if (a.start && i == 0) {
        a.start[list] = list * n;
        a.start[list + 1] = (list + 1) * n; /* the next list writes the same */
    }
    if (i >= n) return;
    int64_t row = i;
    if (middle >= n_middle)
        row = n_rows - a.local + (middle - n_middle);
    else if (middle >= 0)
        row =
            a.init + (a.page == 1 ? a.chosen[list * a.n_chosen + middle]
                                  : a.chosen[list * a.n_chosen + middle / a.page] * a.page + middle % a.page);
    a.rows[list * n + i] = (int32_t)row;
    if (a.turn_back) a.turn_back[list * n + i] = (int32_t)(row - i);
}

extern "C" sac_status sac_cuda_choice_rows(const sac_stream *s, const sac_choice_rows_args *a) {
    sac_choice_rows_args b = *a;
    b.page = max_of(1, a->page);
    int64_t n = a->init + a->n_chosen * b.page + a->local, n_lists = max_of(1, a->n_lists);
    if (!n && !a->start) return SAC_OK;
    if (n_lists > 65535) return SAC_UNSUPPORTED;
    dim3 blocks((unsigned)ceil_div(max_of(1, n), 256), (unsigned)n_lists);
    return launch(s, of_step({blocks, 256}), choice_rows_kernel, b);
}

/* Eight pairs (i, i + n) of a head turned back, 16 bytes of each half at a time. */
template <typename T>
__device__ __forceinline__ void turn_back_pairs(const T *from, T *to, int n, const float *angles, float f) {
    float u[8], v[8], cs[16];
    load<8>(u, from);
    load<8>(v, from + n);
    load<8>(cs, angles);
    load<8>(cs + 8, angles + 8);
#pragma unroll
    for (int i = 0; i < 8; i++) turn_back(cs[2 * i] * f, cs[2 * i + 1] * f, u[i], v[i]);
    store<8>(to, u);
    store<8>(to + n, v);
}

/* First the query's items, then those of rows: keys, then values, a head after the other. */
template <typename T>
static __global__ void choice_step_kernel(sac_choice_step_args a, int begin, int n_items) {
    start_next();
    wait_for_last();
    int i = blockIdx.x * blockDim.x + threadIdx.x, d = a.src.head_dim, apart = d / 2, per_head = apart / 8;
    int n_first = (int)(a.init + a.n_chosen), n = n_first + (int)a.local, n_q = a.n_heads * per_head;
    int c = i % per_head * 8, item = i / per_head - a.n_heads, n_new = n - begin;
    float f = 1 / a.rotation.factor;
    if (i >= n_items) return;
    bool kept = is_skipped(a.skip);
    if (i < n_q) {
        T *q = (T *)a.q.data + i / per_head * d + c;
        turn_back_pairs<T>(q, q, apart, a.rotation.cos_sin + (a.n_rows - n) * d + 2 * c, f);
        return;
    }
    int place = begin + item % n_new, head = item / n_new % a.src.n_heads;
    bool value = item / n_new >= a.src.n_heads;
    if (kept && place < n_first) return;
    int64_t row = place < a.init    ? place
                  : place < n_first ? a.init + a.chosen[place - a.init]
                                    : a.n_rows - n + place;
    const T *from =
        (const T *)(value ? a.src.v : a.src.k) + row * a.src.row_stride + head * a.src.head_stride + c;
    T *to = (T *)(value ? a.dst.v : a.dst.k) + place * a.dst.row_stride + head * a.dst.head_stride + c;
    if (value) {
        *(uint4 *)to = *(const uint4 *)from;
        *(uint4 *)(to + apart) = *(const uint4 *)(from + apart);
    } else {
        turn_back_pairs<T>(from, to, apart, a.rotation.cos_sin + (row - place) * d + 2 * c, f);
    }
}

static bool on_lines(const sac_kv_view *kv) {
    return kv->head_stride % 8 == 0 && is_aligned(kv->k, kv->row_stride) && is_aligned(kv->v, kv->row_stride);
}

extern "C" sac_status sac_cuda_choice_step(const sac_stream *s, const sac_choice_step_args *a) {
    const sac_rotation *r = &a->rotation;
    sac_dtype t = a->src.dtype;
    int64_t d = a->src.head_dim, begin = a->kept ? a->init + a->n_chosen : 0,
            n_new = a->init + a->n_chosen + a->local - begin,
            items = (a->n_heads + 2 * n_new * a->src.n_heads) * (d / 16);
    if (items == 0) return SAC_OK;
    if (!is_half(t) || (a->n_heads && a->q.dtype != t) || a->dst.dtype != t || d % 16 != 0 ||
        r->rot_dim != d || r->interleaved || (uintptr_t)r->cos_sin % 16 != 0 || !on_lines(&a->src) ||
        !on_lines(&a->dst) || (a->n_heads && !mat_aligned(a->q)) || items > 1 << 30 || a->n_rows > 1 << 30)
        return SAC_UNSUPPORTED;
    dim3 blocks((unsigned)ceil_div(items, 256));
    return t == SAC_DTYPE_F16
               ? launch(s, of_step({blocks, 256}), choice_step_kernel<half>, *a, (int)begin, (int)items)
               : launch(s, of_step({blocks, 256}), choice_step_kernel<bf16>, *a, (int)begin, (int)items);
}

} // namespace sac::select
