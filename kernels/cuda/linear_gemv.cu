/* linear_gemv.cu - up to 4 rows of x against weights that are read once: bound by memory. One row: see
 * stream_pairs.cuh. More, or one too long for shared memory or with too many rows of w: a warp streams two
 * rows of w side by side, a line of 512 bytes of each at a time, with four lines of both on their way; x
 * comes out of the L1 cache. Where w has few rows, several warps share a pair of rows, every so many lines
 * one, and their sums meet in a fixed order.
 *
 * Tried and dropped: the sums on tensor cores (16 rows of w a block, 64 bytes of a row a load): 2.8 TB/s
 * where this and cuBLASLt stream 4 (H200, 3584 -> 37888). */
#include "stream_pairs.cuh"

enum { WARPS = 8, AHEAD = 4, ROWS = 2, ONE_ROW = 1 /* 0: one row as several */ };

template <typename T, int M>
static __global__ void __launch_bounds__(WARPS * 32)
    gemv_kernel(sac_mat y, const T *x, int64_t x_stride, const T *w, int k, int share, const float *bias,
                sac_activation act, bool accumulate) {
    __shared__ float part[WARPS][ROWS][M];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, pairs = WARPS / share;
    int64_t n = y.cols, row = ((int64_t)blockIdx.x * pairs + warp / share) * ROWS;
    const T *w0 = w + min(row, n - 1) * k, *w1 = w + min(row + 1, n - 1) * k;
    const uint4 zero = make_uint4(0, 0, 0, 0);
    float acc[ROWS][M] = {{0}};
    int step = share * LINE, begin = warp % share * LINE + lane * 8;
    uint4 a[ROWS][AHEAD];
    auto fetch = [&](int k0) {
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            bool in = k0 + u * step < k;
            a[0][u] = in ? stream(w0 + k0 + u * step) : zero;
            a[1][u] = in ? stream(w1 + k0 + u * step) : zero;
        }
    };
    start_next();
    fetch(begin);
    wait_for_last();
    for (int k0 = begin; k0 - lane * 8 < k; k0 += step * AHEAD) {
        if (k0 != begin) fetch(k0);
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            float e[ROWS][8];
            unpack(a[0][u], e[0], T());
            unpack(a[1][u], e[1], T());
#pragma unroll
            for (int m = 0; m < M; m++) {
                float f[8];
                uint4 b = k0 + u * step < k ? *(const uint4 *)(x + m * x_stride + k0 + u * step) : zero;
                unpack(b, f, T());
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    acc[0][m] += e[0][i] * f[i];
                    acc[1][m] += e[1][i] * f[i];
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int m = 0; m < M; m++) {
            float sum = warp_sum(acc[r][m]);
            if (lane == 0) part[warp][r][m] = sum;
        }
    __syncthreads();
    int i = threadIdx.x; /* row of w within the block, then row of x */
    if (i >= pairs * ROWS * M) return;
    int m = i % M, r = i / M % ROWS, pair = i / M / ROWS;
    int64_t col = ((int64_t)blockIdx.x * pairs + pair) * ROWS + r, at = m * y.stride + col;
    if (col >= n || m >= y.rows) return;
    float sum = bias ? bias[col] : 0.0f;
    for (int j = 0; j < share; j++) sum += part[pair * share + j][r][m];
    sum = activate(act, sum);
    store_any(y.dtype, y.data, at, accumulate ? load_any(y.dtype, y.data, at) + sum : sum);
}

template <typename T, int M> static sac_status launch(const sac_stream *s, const sac_linear_args *a) {
    int64_t n = a->y.cols, k = a->x.cols;
    /* as many warps as the card runs at once, of which each has a line at least */
    int share = 1;
    while (share < WARPS && n / ROWS * share < (int64_t)s->device->n_processors * 16 && k > LINE * share)
        share *= 2;
    unsigned blocks = (unsigned)ceil_div(n, WARPS / share * ROWS);
    return launch_early(s, gemv_kernel<T, M>, blocks, WARPS * 32, 0, a->y, (const T *)a->x.data,
                        a->x.rows > 1 ? a->x.stride : 0, (const T *)a->w.data, (int)k, share, a->bias, a->act,
                        a->accumulate);
}

/* One row of x; a pair is two neighbouring rows of w. */
struct pairs_job {
    static const bool NORMED = false, HALVES = false;
    static const int LATE = 2;
    sac_mat y;
    const void *w;
    const float *bias;
    sac_activation act;
    bool accumulate;

    __device__ bool has_second(int pair) const { return 2 * (int64_t)pair + 1 < y.cols; }
    template <typename T> __device__ void rows(int pair, int k_cols, const T *&w0, const T *&w1) const {
        w0 = (const T *)w + 2 * (int64_t)pair * k_cols;
        w1 = has_second(pair) ? w0 + k_cols : w0;
    }
    __device__ void early(int pair, stream_pairs::extra &e) const {
        if (!bias) return;
        stream_pairs::copy_float(&e.bias[0], bias + 2 * (int64_t)pair, true);
        stream_pairs::copy_float(&e.bias[1], bias + 2 * (int64_t)pair + has_second(pair), true);
    }
    __device__ void warm_at(int64_t at) const {
        int64_t bytes = y.dtype == SAC_DTYPE_F32 ? 4 : 2;
        if (accumulate) fetch_soon((const uint8_t *)y.data + at * bytes);
    }
    __device__ void late_at(int64_t at, float *more) const {
        if (accumulate) *more = load_any(y.dtype, y.data, at);
    }
    __device__ void finish_at(int64_t at, float sum, float b, float more) const {
        if (bias) sum += b;
        if (act != SAC_ACT_NONE) sum = activate(act, sum);
        if (accumulate) sum += more;
        store_any(y.dtype, y.data, at, sum);
    }
    __device__ void warm(int pair) const { warm_at(2 * (int64_t)pair); }
    template <typename T> __device__ void late(int pair, stream_pairs::extra &e) const {
        late_at(2 * (int64_t)pair, &e.more[0]);
        if (has_second(pair)) late_at(2 * (int64_t)pair + 1, &e.more[1]);
    }
    template <typename T>
    __device__ void finish(int pair, float s0, float s1, const stream_pairs::extra &e) const {
        finish_at(2 * (int64_t)pair, s0, e.bias[0], e.more[0]);
        if (has_second(pair)) finish_at(2 * (int64_t)pair + 1, s1, e.bias[1], e.more[1]);
    }
};

/* A pair is the halves of one row: where a block has so few that one more or less is felt. */
struct halves_job : pairs_job {
    static const bool HALVES = true;

    template <typename T> __device__ void rows(int row, int k_cols, const T *&w0, const T *&w1) const {
        w0 = (const T *)w + (int64_t)row * k_cols;
        w1 = w0 + (k_cols + 2 * LINE - 1) / (2 * LINE) * LINE;
    }
    __device__ void early(int row, stream_pairs::extra &e) const {
        if (bias) stream_pairs::copy_float(&e.bias[0], bias + row, true);
    }
    __device__ void warm(int row) const { warm_at(row); }
    template <typename T> __device__ void late(int row, stream_pairs::extra &e) const {
        late_at(row, &e.more[0]);
    }
    template <typename T>
    __device__ void finish(int row, float sum, float, const stream_pairs::extra &e) const {
        finish_at(row, sum, e.bias[0], e.more[0]);
    }
};

template <typename T> static sac_status launch_one(const sac_stream *s, const sac_linear_args *a) {
    int64_t k = a->x.cols, n = a->y.cols;
    halves_job j;
    j.y = a->y, j.w = a->w.data, j.bias = a->bias, j.act = a->act, j.accumulate = a->accumulate;
    if (n > 1 << 30 || k > 1 << 17 || k < 1) return SAC_UNSUPPORTED;
    const int few = 128; /* rows of a processor */
    if (k >= 2 * LINE && n < (int64_t)s->device->n_processors * few)
        return stream_pairs::launch<T>(s, a->x.data, NULL, 0, k, n, j);
    return stream_pairs::launch<T>(s, a->x.data, NULL, 0, k, ceil_div(n, 2), (const pairs_job &)j);
}

extern "C" sac_status sac_cuda_linear_gemv(const sac_stream *s, const sac_linear_args *a) {
    int64_t m = a->x.rows, n = a->y.cols, k = a->x.cols;
    if ((m != 1 && m != 2 && m != 4) || k > 1 << 24 || n > (int64_t)1 << 32)
        return m ? SAC_UNSUPPORTED : SAC_OK;
    if (!is_half(a->x.dtype) || a->w.dtype != a->x.dtype || !is_float(a->y.dtype)) return SAC_UNSUPPORTED;
    if (!mat_aligned(a->x) || !is_aligned(a->w.data, k)) return SAC_UNSUPPORTED;
    if (ONE_ROW && m == 1 && n) {
        sac_status st = a->x.dtype == SAC_DTYPE_F16 ? launch_one<half>(s, a) : launch_one<bf16>(s, a);
        if (st != SAC_UNSUPPORTED) return st;
    }
#define LAUNCH(M) (a->x.dtype == SAC_DTYPE_F16 ? launch<half, M>(s, a) : launch<bf16, M>(s, a))
    return m == 1 ? LAUNCH(1) : m == 2 ? LAUNCH(2) : LAUNCH(4);
}
