/* rows_tmpl.h - weights whose rows are stretches of small numbers, with scales apart, on vectors: x keeps f32
 * precision, unless the checkpoint has it rounded. The file that includes this has said how a row is unpacked:
 *
 *   rows_at(w, j)               where row j begins
 *   rows_load(row, p)           VF elements from p on as floats
 *   rows_load_part(row, p, n)   n of them, the other lanes any finite number
 *   rows_zero(w, j, g)          what stands for 0 in group g of row j
 *
 * A few rows of x meet the weights as they lie; for many, panels of weights are unpacked to f32
 * (linear_gemm_tmpl.h). A sum's bits depend neither on the number of threads nor, as long as rows are few or `steady`,
 * on the rows beside it. */
#include "cpu/linear_gemm_tmpl.h"
#include "ref/weights/x_rounding.h"

#include <assert.h>

/* Rows of x, and weight rows, that meet at a time; weight rows between two epilogues. */
enum { ROWS_X = VF == 16 ? 4 : 2, ROWS_W = 4, ROWS_TASK = 64 };

/* Where the scale of a row's first group stands; the others follow. */
static int64_t first_scale(const sac_weight *w, int64_t j) {
    if (w->scales.dim[0] == 1) return 0;
    return (w->group_rows ? j / w->group_rows : j) * w->scales.dim[1];
}

static float scale_at(const sac_weight *w, int64_t at) {
    if (w->scales.dtype == SAC_DTYPE_F32) return ((const float *)w->scales.data)[at];
    uint16_t h = ((const uint16_t *)w->scales.data)[at];
    return w->scales.dtype == SAC_DTYPE_F16 ? _cvtsh_ss(h) : sac_bf16_to_f32(h);
}

/* ---- a few rows ---- */

/* acc[i][r] += elements [p, end) of weight row i, less its zero, times those of row r of x. */
SAC_INLINE void rows_group(const int n_w, const int n_x, const uint8_t *const *q, const vf *zero,
                           const float *x, int64_t x_stride, int64_t p, int64_t end, vf (*acc)[ROWS_X]) {
    for (; p + VF <= end; p += VF) {
        vf xv[ROWS_X];
#pragma GCC unroll 4
        for (int r = 0; r < n_x; r++) xv[r] = vf_load(x + r * x_stride + p);
#pragma GCC unroll 4
        for (int i = 0; i < n_w; i++) {
            vf w = vf_sub(rows_load(q[i], p), zero[i]);
#pragma GCC unroll 4
            for (int r = 0; r < n_x; r++) acc[i][r] = vf_fma(w, xv[r], acc[i][r]);
        }
    }
    for (int i = 0; p < end && i < n_w; i++) {
        vf w = vf_sub(rows_load_part(q[i], p, end - p), zero[i]);
        for (int r = 0; r < n_x; r++) /* what stands behind the end meets zeros */
            acc[i][r] = vf_fma(w, vf_load_part(x + r * x_stride + p, end - p), acc[i][r]);
    }
}

/* sum[r][i] of rows [j, j + n_w) of w and n_x rows of x: a group's sum is scaled when it is whole. */
SAC_INLINE void rows_dots(const int n_w, const int n_x, const sac_weight *w, int64_t j, const float *x,
                          int64_t x_stride, int64_t k, float (*sum)[ROWS_TASK]) {
    vf total[ROWS_W][ROWS_X];
    const uint8_t *q[ROWS_W];
    for (int i = 0; i < n_w; i++) {
        q[i] = rows_at(w, j + i);
        for (int r = 0; r < n_x; r++) total[i][r] = vf_zero();
    }
    for (int64_t g = 0; g * w->group < k; g++) {
        vf acc[ROWS_W][ROWS_X], zero[ROWS_W];
#pragma GCC unroll 4
        for (int i = 0; i < n_w; i++) {
            zero[i] = vf_set1(rows_zero(w, j + i, g));
#pragma GCC unroll 4
            for (int r = 0; r < n_x; r++) acc[i][r] = vf_zero();
        }
        int64_t end = sac_min_i64(k, (g + 1) * w->group);
        rows_group(n_w, n_x, q, zero, x, x_stride, g * w->group, end, acc);
        for (int i = 0; i < n_w; i++) {
            vf scale = vf_set1(scale_at(w, first_scale(w, j + i) + g));
            for (int r = 0; r < n_x; r++) total[i][r] = vf_fma(acc[i][r], scale, total[i][r]);
        }
    }
    for (int i = 0; i < n_w; i++)
        for (int r = 0; r < n_x; r++) sum[r][i] = vf_sum(total[i][r]);
}

SAC_INLINE void rows_rows_as(const int n_x, const sac_weight *w, int64_t j, int64_t n, const float *x,
                             int64_t x_stride, int64_t k, float (*sum)[ROWS_TASK]) {
    int64_t i = 0;
    for (; i + ROWS_W <= n; i += ROWS_W)
        rows_dots(ROWS_W, n_x, w, j + i, x, x_stride, k, (float(*)[ROWS_TASK])(sum[0] + i));
    for (; i < n; i++) rows_dots(1, n_x, w, j + i, x, x_stride, k, (float(*)[ROWS_TASK])(sum[0] + i));
}

static void rows_rows(int64_t n_x, const sac_weight *w, int64_t j, int64_t n, const float *x,
                      int64_t x_stride, int64_t k, float (*sum)[ROWS_TASK]) {
    switch (n_x) { /* a constant in each copy */
    case 1: rows_rows_as(1, w, j, n, x, x_stride, k, sum); break;
    case 2: rows_rows_as(2, w, j, n, x, x_stride, k, sum); break;
#if defined(__AVX512F__)
    case 3: rows_rows_as(3, w, j, n, x, x_stride, k, sum); break;
    default: rows_rows_as(4, w, j, n, x, x_stride, k, sum); break;
#endif
    }
}

/* Rows [first, first + n) of w, at most ROWS_TASK. */
static void rows_some(const sac_linear_args *a, int64_t first, int64_t n) {
    float sum[ROWS_X][ROWS_TASK];
    for (int64_t i = 0; i < a->x.rows; i += ROWS_X) { /* a second pass finds the weights in the cache */
        int64_t n_x = sac_min_i64(ROWS_X, a->x.rows - i);
        rows_rows(n_x, &a->w, first, n, sac_mat_row_f32(a->x, i), a->x.stride, a->x.cols, sum);
        linear_finish_rows(a, i, n_x, first, sum[0], ROWS_TASK, n);
    }
}

static void rows_few(const sac_linear_args *a, int64_t first, int64_t n) {
    for (int64_t i = 0; i < n; i += ROWS_TASK) rows_some(a, first + i, sac_min_i64(ROWS_TASK, n - i));
}

static void rows_task(void *ctx, int64_t task, int thread) {
    const sac_linear_args *a = ctx;
    const int64_t first = task * ROWS_TASK;
    (void)thread;
    rows_some(a, first, sac_min_i64(ROWS_TASK, a->y.cols - first));
}

/* ---- many rows ---- */

/* Elements [k0, k0 + k) of row j as f32. */
static void unpack_row(const sac_weight *w, int64_t j, int64_t k0, int64_t k, float *y) {
    const uint8_t *q = rows_at(w, j);
    for (int64_t p = k0; p < k0 + k;) {
        int64_t g = p / w->group, end = sac_min_i64(k0 + k, (g + 1) * w->group), at = first_scale(w, j) + g;
        vf scale = vf_set1(scale_at(w, at)), zero = vf_set1(rows_zero(w, j, g));
        for (; p + VF <= end; p += VF) vf_store(y + p - k0, vf_mul(scale, vf_sub(rows_load(q, p), zero)));
        if (p < end)
            vf_store_part(y + p - k0, vf_mul(scale, vf_sub(rows_load_part(q, p, end - p), zero)), end - p);
        p = end;
    }
}

static void rows_pack(const sac_linear_args *a, int64_t j, int64_t n, int64_t k0, int64_t k, float *panel) {
    float unpacked[GEMM_PANEL][GEMM_MAX_K];
    const void *row[GEMM_PANEL];
    for (int64_t i = 0; i < n; i++) {
        unpack_row(&a->w, j + i, k0, k, unpacked[i]);
        row[i] = unpacked[i];
    }
    SAC_ISA(sac_pack)(SAC_DTYPE_F32, row, n, k, panel, GEMM_PANEL);
}

typedef struct rounding {
    const sac_linear_args *a;
    sac_mat to;
} rounding;

static void rows_round(void *ctx, int64_t i, int thread) {
    const rounding *r = ctx;
    (void)thread;
    sac_round_x(&r->a->w, sac_mat_row_f32(r->a->x, i), sac_mat_row_f32(r->to, i), r->a->x.cols);
}

static void rows_product(const sac_stream *s, const sac_linear_args *a, bool many) {
    if (many)
        linear_gemm(s, a, rows_pack);
    else
        sac_pool_run(s->pool, sac_div_up(a->y.cols, ROWS_TASK), rows_task, (void *)(uintptr_t)a);
}

/* Rounded rows of x lie in the shared scratch, as many at a time as it holds. */
static sac_status rows_linear(const sac_stream *s, const sac_linear_args *a) {
    const bool many = a->x.rows > LINEAR_FEW_ROWS && !a->steady;
    if (a->x.rows == 0) return SAC_OK;
    if (a->n_unsteady && a->w.x_rounding != SAC_X_EXACT) return linear_apart(s, a, rows_linear);
    if (a->n_unsteady) {
        linear_gemm_both(s, a, rows_pack, rows_few);
        return SAC_OK;
    }
    if (a->w.x_rounding == SAC_X_EXACT) {
        rows_product(s, a, many);
        return SAC_OK;
    }
    const int64_t k = a->x.cols, most = (int64_t)(s->shared_scratch_bytes / ((size_t)k * sizeof(float)));
    assert(most >= sac_min_i64(a->x.rows, LINEAR_FEW_ROWS));
    for (int64_t i = 0, n; i < a->x.rows; i += n) {
        n = sac_min_i64(most, a->x.rows - i);
        sac_linear_args part = *a;
        part.x = sac_mat_rows(a->x, i, n);
        part.y = sac_mat_rows(a->y, i, n);
        rounding r = {&part, {s->shared_scratch, n, k, k, SAC_DTYPE_F32}};
        sac_pool_run(s->pool, n, rows_round, &r);
        sac_linear_args product = part;
        product.x = r.to;
        rows_product(s, &product, many);
    }
    return SAC_OK;
}
