/* linear_dot_tmpl.h - a few rows of x against weight rows as they lie: the decode step, bound by memory.
 *
 * Several weight rows are read side by side, and those of the next step are asked for: a row is often shorter than
 * what the processor's own prefetcher needs to get going. They are converted in registers and multiplied with every
 * row of x, which stays in the cache. A sum is one vector over all of k, added up across lanes at the end: its bits
 * depend neither on the number of threads nor on m, as long as m stays on this path. */
#include "cpu.h"
#include "linear_epilogue.h"

#ifdef __AVX512F__
#define DOT_MAX_X 6
#else
#define DOT_MAX_X 3 /* 3 x 4 sums of 16 registers */
#endif
#define DOT_ROWS(n_x) ((n_x) == 1 ? 8 : 4) /* weight rows at a time: 8 sums hide the latency of an addition */
#define DOT_GROUP     64                   /* weight rows between two epilogues */

/* VF weights from element p on. */
SAC_INLINE vf dot_load(sac_dtype t, const char *w, int64_t p) {
#ifdef __AVX512VBMI__
    if (t == SAC_DTYPE_BF16) { /* one permutation, where to widen and to shift are two instructions */
        const __m512i pairs = _mm512_set_epi32(
            0x1f1e0000, 0x1d1c0000, 0x1b1a0000, 0x19180000, 0x17160000, 0x15140000, 0x13120000, 0x11100000,
            0x0f0e0000, 0x0d0c0000, 0x0b0a0000, 0x09080000, 0x07060000, 0x05040000, 0x03020000, 0x01000000);
        const __m512i bytes =
            _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)(w + p * 2)));
        return _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi8(0xccccccccccccccccu, pairs, bytes));
    }
#endif
    return vf_load_as(t, w, p);
}

/* sum[x][w] of n_w weight rows and n_x rows of x. */
SAC_INLINE void dots(sac_dtype t, const int n_w, const int n_x, const char *w, size_t w_row_bytes,
                     const float *x, int64_t x_stride, int64_t k, float (*sum)[DOT_GROUP]) {
    vf acc[8][DOT_MAX_X];
#pragma GCC unroll 8
    for (int j = 0; j < n_w; j++)
#pragma GCC unroll 6
        for (int i = 0; i < n_x; i++) acc[j][i] = vf_zero();
    int64_t p = 0;
    const int64_t weight_bytes = t == SAC_DTYPE_F32 ? 4 : 2;
    for (; p + VF <= k; p += VF) {
        vf xv[DOT_MAX_X];
#pragma GCC unroll 6
        for (int i = 0; i < n_x; i++) xv[i] = vf_load(x + i * x_stride + p);
#pragma GCC unroll 8
        for (int j = 0; j < n_w; j++) {
            vf wv = dot_load(t, w + (size_t)j * w_row_bytes, p);
            /* the next step's; behind the last one there is nothing, which a prefetch may ask for */
            if (n_w > 1) __builtin_prefetch(w + (size_t)(j + n_w) * w_row_bytes + p * weight_bytes);
#pragma GCC unroll 6
            for (int i = 0; i < n_x; i++) acc[j][i] = vf_fma(wv, xv[i], acc[j][i]);
        }
    }
    for (int j = 0; p < k && j < n_w; j++) {
        vf wv = vf_load_as_part(t, w + (size_t)j * w_row_bytes, p, k - p);
        for (int i = 0; i < n_x; i++)
            acc[j][i] = vf_fma(wv, vf_load_part(x + i * x_stride + p, k - p), acc[j][i]);
    }
    if (n_w == 4) {
#pragma GCC unroll 6
        for (int i = 0; i < n_x; i++)
            vf_sum_four((const vf[4]){acc[0][i], acc[1][i], acc[2][i], acc[3][i]}, sum[i]);
        return;
    }
#pragma GCC unroll 8
    for (int j = 0; j < n_w; j++)
#pragma GCC unroll 6
        for (int i = 0; i < n_x; i++) sum[i][j] = vf_sum(acc[j][i]);
}

/* Up to DOT_GROUP weight rows; what does not fill a full step goes one by one. */
SAC_INLINE void dot_group(sac_dtype t, const int n_x, const char *w, size_t w_row_bytes, int64_t n_w,
                          const float *x, int64_t x_stride, int64_t k, float (*sum)[DOT_GROUP]) {
    int64_t j = 0;
    for (; j + DOT_ROWS(n_x) <= n_w; j += DOT_ROWS(n_x))
        dots(t, DOT_ROWS(n_x), n_x, w + (size_t)j * w_row_bytes, w_row_bytes, x, x_stride, k,
             (float(*)[DOT_GROUP])(sum[0] + j));
    for (; j < n_w; j++)
        dots(t, 1, n_x, w + (size_t)j * w_row_bytes, w_row_bytes, x, x_stride, k,
             (float(*)[DOT_GROUP])(sum[0] + j));
}

typedef void (*dot_group_fn)(const char *w, size_t w_row_bytes, int64_t n_w, const float *x, int64_t x_stride,
                             int64_t k, float (*sum)[DOT_GROUP]);
#define DOT_GROUP_FN(t, n_x)                                                                                 \
    static void dot_group_##t##_##n_x(const char *w, size_t w_row_bytes, int64_t n_w, const float *x,        \
                                      int64_t x_stride, int64_t k, float(*sum)[DOT_GROUP]) {                 \
        dot_group(SAC_DTYPE_##t, n_x, w, w_row_bytes, n_w, x, x_stride, k, sum);                             \
    }
#define DOT_GROUP_NAME(t, n_x) dot_group_##t##_##n_x,
#ifdef __AVX512F__
#define DOT_X(X, t) X(t, 1) X(t, 2) X(t, 3) X(t, 4) X(t, 5) X(t, 6)
#else
#define DOT_X(X, t) X(t, 1) X(t, 2) X(t, 3)
#endif
DOT_X(DOT_GROUP_FN, F32)
DOT_X(DOT_GROUP_FN, F16)
DOT_X(DOT_GROUP_FN, BF16)
static const dot_group_fn dot_groups[3][DOT_MAX_X] = {
    [SAC_DTYPE_F32] = {DOT_X(DOT_GROUP_NAME, F32)},
    [SAC_DTYPE_F16] = {DOT_X(DOT_GROUP_NAME, F16)},
    [SAC_DTYPE_BF16] = {DOT_X(DOT_GROUP_NAME, BF16)},
};

typedef struct dot_job {
    const sac_linear_args *a;
    int64_t rows_per_task; /* of w */
} dot_job;

/* Weight rows [first, first + n). */
static void dot_rows(const sac_linear_args *a, int64_t first, int64_t n) {
    int64_t m = a->x.rows, k = a->x.cols, end = first + n;
    size_t w_row_bytes = sac_dtype_row_bytes(a->w.tensor.dtype, k);
    float sum[DOT_MAX_X][DOT_GROUP];
    for (int64_t j = first; j < end; j += DOT_GROUP) {
        int64_t n_w = sac_min_i64(DOT_GROUP, end - j);
        const char *w = (const char *)a->w.tensor.data + (size_t)j * w_row_bytes;
        for (int64_t i = 0; i < m; i += DOT_MAX_X) { /* a second pass finds the weights in the cache */
            int64_t n_x = sac_min_i64(DOT_MAX_X, m - i);
            dot_groups[a->w.tensor.dtype][n_x - 1](w, w_row_bytes, n_w, sac_mat_row_f32(a->x, i), a->x.stride,
                                                   k, sum);
            linear_finish_rows(a, i, n_x, j, sum[0], DOT_GROUP, n_w);
        }
    }
}

static void dot_task(void *ctx, int64_t task, int thread) {
    const dot_job *job = ctx;
    const int64_t first = task * job->rows_per_task;
    (void)thread;
    dot_rows(job->a, first, sac_min_i64(job->rows_per_task, job->a->y.cols - first));
}

static void linear_dot(const sac_stream *s, const sac_linear_args *a) {
    int64_t n = a->y.cols, row_bytes = (int64_t)sac_dtype_row_bytes(a->w.tensor.dtype, a->x.cols) * a->x.rows;
    int64_t rows_per_task = sac_div_up(SAC_TASK_BYTES / 2, sac_max_i64(1, row_bytes));
    /* large weights: some tasks a thread are enough to balance */
    rows_per_task = sac_max_i64(rows_per_task, n / (16 * (int64_t)sac_pool_n_threads(s->pool)));
    rows_per_task = sac_div_up(rows_per_task, 8) * 8;
    dot_job job = {a, rows_per_task};
    if (n * row_bytes <= SAC_TASK_BYTES) job.rows_per_task = n;
    sac_pool_run(s->pool, sac_div_up(n, job.rows_per_task), dot_task, &job);
}
