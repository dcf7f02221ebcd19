/* keep_rows.cu - rows of keys and values that stay move together in place, and a row of a full cache makes
 * room for the newest. */
#include "device.cuh"

namespace sac::rows {

enum { THREADS = 512, AT_ONCE = 4 /* rows a thread */, LINE = 32 /* bytes of a row that a block moves */ };

/* A block has a few channels of a head and goes over the list in order. All of a round is read before any of
 * it is written; what later rounds read lies beyond: row i takes what row rows[i] >= i holds. Blocks have no
 * channel in common. */
template <typename V> static __global__ void keep_rows_kernel(sac_keep_rows_args a, int per_element) {
    const int n_lanes = LINE / (int)sizeof(V), n_rows = THREADS / n_lanes;
    int head = blockIdx.y, lane = threadIdx.x % n_lanes;
    const int32_t *rows = a.rows + (a.n_lists > 1 ? head * a.n : 0);
    int64_t c = (int64_t)blockIdx.x * n_lanes + lane, stride = a.kv.row_stride / per_element;
    bool is_there = c < a.kv.head_dim / per_element;
    V *data = (V *)(blockIdx.z ? a.kv.v : a.kv.k) + head * a.kv.head_stride / per_element + c;
    for (int64_t begin = 0; begin < a.n; begin += n_rows * AT_ONCE) {
        V held[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int64_t row = begin + i * n_rows + threadIdx.x / n_lanes;
            if (is_there && row < a.n) held[i] = data[rows[row] * stride];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int64_t row = begin + i * n_rows + threadIdx.x / n_lanes;
            if (is_there && row < a.n) data[row * stride] = held[i];
        }
    }
}

template <typename V>
static sac_status launch_keep(const sac_stream *s, const sac_keep_rows_args *a, int per_element) {
    int64_t per_line = LINE / (int64_t)sizeof(V) * per_element;
    dim3 grid((unsigned)ceil_div(a->kv.head_dim, per_line), (unsigned)a->kv.n_heads, 2);
    return launch(s, {grid, THREADS}, keep_rows_kernel<V>, *a, per_element);
}

/* Whether a head's rows are whole 16-byte lines; then how many elements a line has, else 0. */
static int line_elements(const sac_kv_view *kv) {
    int n = 16 / (int)element_bytes(kv->dtype);
    bool whole = (uintptr_t)kv->k % 16 == 0 && (uintptr_t)kv->v % 16 == 0 && kv->head_dim % n == 0 &&
                 kv->row_stride % n == 0 && kv->head_stride % n == 0;
    return whole ? n : 0;
}

extern "C" sac_status sac_cuda_keep_rows(const sac_stream *s, const sac_keep_rows_args *a) {
    if (!is_float(a->kv.dtype) || a->kv.n_heads > 65535) return SAC_UNSUPPORTED;
    if (!a->n) return SAC_OK;
    int n = line_elements(&a->kv);
    if (n) return launch_keep<uint4>(s, a, n);
    return is_half(a->kv.dtype) ? launch_keep<uint16_t>(s, a, 1) : launch_keep<uint32_t>(s, a, 1);
}

/* ---------------------------------------------------------------- one row */

typedef struct light_row {
    float score;
    int32_t age, row; /* row -1: none */
} light_row;

__device__ __forceinline__ light_row lighter(light_row x, light_row y) {
    if (x.row < 0 || y.row < 0) return x.row < 0 ? y : x;
    return y.score < x.score || (y.score == x.score && y.age > x.age) ? y : x;
}

__device__ __forceinline__ light_row lightest_of_warp(light_row x) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) {
        light_row y;
        y.score = __shfl_xor_sync(0xffffffffu, x.score, i);
        y.age = __shfl_xor_sync(0xffffffffu, x.age, i);
        y.row = __shfl_xor_sync(0xffffffffu, x.row, i);
        x = lighter(x, y);
    }
    return x;
}

/* A block has a head. */
static __global__ void __launch_bounds__(1024) evict_row_kernel(sac_evict_row_args a) {
    __shared__ light_row part[32];
    int head = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32, last = (int)a.kv.n_rows - 1;
    float *score = a.score + head * a.stride;
    int32_t *ages = a.ages + head * a.stride;
    const float *weights = a.weights + head * a.weights_stride;
    light_row mine = {0, 0, -1};
    for (int i = threadIdx.x; i <= last; i += blockDim.x) {
        float x = (i == last ? 0.0f : score[i]) + weights[i];
        int32_t age = i == last ? a.age : ages[i];
        score[i] = x;
        if (i == last) ages[i] = age;
        light_row here = {x, age, i};
        if (age < a.recent_from) mine = lighter(mine, here);
    }
    mine = lightest_of_warp(mine);
    if (lane == 0) part[warp] = mine;
    __syncthreads();
    mine = lightest_of_warp(part[lane]);
    if (!a.evict || mine.row < 0 || mine.row == last) return;
    int64_t bytes = a.kv.dtype == SAC_DTYPE_F32 ? 4 : 2;
    int64_t from = (head * a.kv.head_stride + last * a.kv.row_stride) * bytes,
            to = (head * a.kv.head_stride + mine.row * a.kv.row_stride) * bytes;
    for (int i = threadIdx.x; i < a.kv.head_dim * bytes / 2; i += blockDim.x) {
        ((uint16_t *)((char *)a.kv.k + to))[i] = ((const uint16_t *)((const char *)a.kv.k + from))[i];
        ((uint16_t *)((char *)a.kv.v + to))[i] = ((const uint16_t *)((const char *)a.kv.v + from))[i];
    }
    if (threadIdx.x > 0) return;
    score[mine.row] = score[last];
    ages[mine.row] = a.age;
}

extern "C" sac_status sac_cuda_evict_row(const sac_stream *s, const sac_evict_row_args *a) {
    if (!is_float(a->kv.dtype) || a->kv.n_rows < 1 || a->kv.n_rows > 1 << 30) return SAC_UNSUPPORTED;
    return launch(s, {(unsigned)a->kv.n_heads, 1024}, evict_row_kernel, *a);
}

} // namespace sac::rows
