/* linear_gemv.cu - up to 8 rows of x against weights that are read once: bound by memory. One row: see
 * stream_pairs.cuh; more: stream_tiles.cuh. */
#include "stream_pairs.cuh"
#include "stream_tiles.cuh"

namespace sac::linear {

using weights::half_weights;

/* What becomes of a sum: element `at` of y's memory. */
struct sums_end {
    sac_mat y;
    const float *bias;
    sac_activation act;
    bool accumulate;

    __device__ float before(int64_t at) const { return accumulate ? load_any(y.dtype, y.data, at) : 0; }
    __device__ void finish_at(int64_t at, float sum, float b, float held) const {
        if (bias) sum += b;
        if (act != SAC_ACT_NONE) sum = activate(act, sum);
        if (accumulate) sum += held;
        store_any(y.dtype, y.data, at, sum);
    }
};
static sums_end end_of(const sac_linear_args *a) {
    return sums_end{a->y, a->bias, a->act, a->accumulate};
}

/* ---------------------------------------------------------------- one row */

/* A pair is two neighbouring rows of w. */
struct pairs_job : sums_end {
    static const bool NORMED = false, HALVES = false;
    static const int LATE = 2;
    const void *w;

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
    __device__ void warm(int pair) const { warm_at(2 * (int64_t)pair); }
    template <typename T> __device__ void late(int pair, stream_pairs::extra &e) const {
        e.more[0] = before(2 * (int64_t)pair);
        if (has_second(pair)) e.more[1] = before(2 * (int64_t)pair + 1);
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
        const int LINE = half_weights<T>::LINE;
        w0 = (const T *)w + (int64_t)row * k_cols;
        w1 = w0 + (k_cols + 2 * LINE - 1) / (2 * LINE) * LINE;
    }
    __device__ void early(int row, stream_pairs::extra &e) const {
        if (bias) stream_pairs::copy_float(&e.bias[0], bias + row, true);
    }
    __device__ void warm(int row) const { warm_at(row); }
    template <typename T> __device__ void late(int row, stream_pairs::extra &e) const {
        e.more[0] = before(row);
    }
    template <typename T>
    __device__ void finish(int row, float sum, float, const stream_pairs::extra &e) const {
        finish_at(row, sum, e.bias[0], e.more[0]);
    }
};

template <typename T> static sac_status launch_one(const sac_stream *s, const sac_linear_args *a) {
    int64_t k = a->x.cols, n = a->y.cols;
    const halves_job j = {{end_of(a), a->w.tensor.data}};
    if (n > 1 << 30 || k > 1 << 17 || k < 1) return SAC_UNSUPPORTED;
    if (k >= 2 * half_weights<T>::LINE && n < (int64_t)s->device->n_processors * HALVES_BELOW_ROWS)
        return stream_pairs::run<half_weights<T>>(s, a->x.data, NULL, 0, k, n, j);
    return stream_pairs::run<half_weights<T>>(s, a->x.data, NULL, 0, k, ceil_div(n, 2), (const pairs_job &)j);
}

/* ---------------------------------------------------------------- a few */

/* A unit is a row of w. */
struct tiles_job : sums_end {
    static const int UNITS = 16;
    const void *from;

    __host__ __device__ const void *w(int) const { return from; }
    __device__ void rows(int first, int g, int last, int &row0, int &row1) const {
        row0 = min(first + g, last), row1 = min(first + g + 8, last);
    }
    __device__ float more(int unit, int m) const { return before(m * y.stride + unit); }
    __device__ void finish(int unit, int m, float sum, float, float more) const {
        finish_at(m * y.stride + unit, sum, bias ? bias[unit] : 0, more);
    }
};

template <typename T> static sac_status launch_few(const sac_stream *s, const sac_linear_args *a) {
    const tiles_job j = {end_of(a), a->w.tensor.data};
    if (!stream_tiles::fits(a->x, a->w.tensor.data, a->y.cols)) return SAC_UNSUPPORTED;
    return stream_tiles::run<half_weights<T>>(s, a->x, a->y.cols, j);
}

extern "C" sac_status sac_cuda_linear_gemv(const sac_stream *s, const sac_linear_args *a) {
    int64_t m = a->x.rows, n = a->y.cols, k = a->x.cols;
    if (!is_half(a->x.dtype) || a->w.tensor.dtype != a->x.dtype || !is_float(a->y.dtype)) return SAC_UNSUPPORTED;
    if (!m || !n) return SAC_OK;
    if (!mat_aligned(a->x) || !is_aligned(a->w.tensor.data, k)) return SAC_UNSUPPORTED;
    if (a->x.dtype == SAC_DTYPE_F16) return m == 1 ? launch_one<half>(s, a) : launch_few<half>(s, a);
    return m == 1 ? launch_one<bf16>(s, a) : launch_few<bf16>(s, a);
}

} // namespace sac::linear
