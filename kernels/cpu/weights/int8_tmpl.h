/* int8_tmpl.h - int8 weights with scales apart on vectors: x keeps f32 precision. A few rows of x meet the weights as
 * they lie; for many, panels of weights are unpacked to f32 (linear_gemm_tmpl.h). A sum's bits depend neither on the
 * number of threads nor, as long as rows are few or `steady`, on the rows beside it. */
#include "cpu/linear_gemm_tmpl.h"
#include "int8.h"

/* Rows of x, and weight rows, that meet at a time; weight rows between two epilogues. */
enum { INT8_X = VF == 16 ? 4 : 2, INT8_W = 4, INT8_GROUP_ROWS = 64 };

/* Where the scale of a row's first group stands; the others follow. */
static int64_t first_scale(const sac_weight *w, int64_t j) {
    return w->scales.dim[0] == 1 ? 0 : j * w->scales.dim[1];
}

static float scale_at(const sac_weight *w, int64_t at) {
    if (w->scales.dtype == SAC_DTYPE_F32) return ((const float *)w->scales.data)[at];
    uint16_t h = ((const uint16_t *)w->scales.data)[at];
    return w->scales.dtype == SAC_DTYPE_F16 ? _cvtsh_ss(h) : sac_bf16_to_f32(h);
}

static float zero_at(const sac_weight *w, int64_t at) {
    return w->zeros.data ? (float)((const int8_t *)w->zeros.data)[at] : 0;
}

/* ---- a few rows ---- */

/* acc[i][r] += elements [p, end) of weight row i, less its zero, times those of row r of x. */
SAC_INLINE void int8_group(const int n_w, const int n_x, const int8_t *const *q, const vf *zero,
                           const float *x, int64_t x_stride, int64_t p, int64_t end, vf (*acc)[INT8_X]) {
    for (; p + VF <= end; p += VF) {
        vf xv[INT8_X];
#pragma GCC unroll 4
        for (int r = 0; r < n_x; r++) xv[r] = vf_load(x + r * x_stride + p);
#pragma GCC unroll 4
        for (int i = 0; i < n_w; i++) {
            vf w = vf_sub(vf_load_i8(q[i] + p), zero[i]);
#pragma GCC unroll 4
            for (int r = 0; r < n_x; r++) acc[i][r] = vf_fma(w, xv[r], acc[i][r]);
        }
    }
    for (int i = 0; p < end && i < n_w; i++) {
        vf w = vf_sub(vf_load_i8_part(q[i] + p, end - p), zero[i]);
        for (int r = 0; r < n_x; r++) /* what stands behind the end meets zeros */
            acc[i][r] = vf_fma(w, vf_load_part(x + r * x_stride + p, end - p), acc[i][r]);
    }
}

/* sum[r][i] of rows [j, j + n_w) of w and n_x rows of x: a group's sum is scaled when it is whole. */
SAC_INLINE void int8_dots(const int n_w, const int n_x, const sac_weight *w, int64_t j, const float *x,
                          int64_t x_stride, int64_t k, float (*sum)[INT8_GROUP_ROWS]) {
    vf total[INT8_W][INT8_X];
    const int8_t *q[INT8_W];
    for (int i = 0; i < n_w; i++) {
        q[i] = (const int8_t *)w->tensor.data + (j + i) * k;
        for (int r = 0; r < n_x; r++) total[i][r] = vf_zero();
    }
    for (int64_t g = 0; g * w->group < k; g++) {
        vf acc[INT8_W][INT8_X], zero[INT8_W];
#pragma GCC unroll 4
        for (int i = 0; i < n_w; i++) {
            zero[i] = vf_set1(zero_at(w, first_scale(w, j + i) + g));
#pragma GCC unroll 4
            for (int r = 0; r < n_x; r++) acc[i][r] = vf_zero();
        }
        int64_t end = sac_min_i64(k, (g + 1) * w->group);
        int8_group(n_w, n_x, q, zero, x, x_stride, g * w->group, end, acc);
        for (int i = 0; i < n_w; i++) {
            vf scale = vf_set1(scale_at(w, first_scale(w, j + i) + g));
            for (int r = 0; r < n_x; r++) total[i][r] = vf_fma(acc[i][r], scale, total[i][r]);
        }
    }
    for (int i = 0; i < n_w; i++)
        for (int r = 0; r < n_x; r++) sum[r][i] = vf_sum(total[i][r]);
}

SAC_INLINE void int8_rows_as(const int n_x, const sac_weight *w, int64_t j, int64_t n, const float *x,
                             int64_t x_stride, int64_t k, float (*sum)[INT8_GROUP_ROWS]) {
    int64_t i = 0;
    for (; i + INT8_W <= n; i += INT8_W)
        int8_dots(INT8_W, n_x, w, j + i, x, x_stride, k, (float(*)[INT8_GROUP_ROWS])(sum[0] + i));
    for (; i < n; i++) int8_dots(1, n_x, w, j + i, x, x_stride, k, (float(*)[INT8_GROUP_ROWS])(sum[0] + i));
}

static void int8_rows(int64_t n_x, const sac_weight *w, int64_t j, int64_t n, const float *x,
                      int64_t x_stride, int64_t k, float (*sum)[INT8_GROUP_ROWS]) {
    switch (n_x) { /* a constant in each copy */
    case 1: int8_rows_as(1, w, j, n, x, x_stride, k, sum); break;
    case 2: int8_rows_as(2, w, j, n, x, x_stride, k, sum); break;
#if defined(__AVX512F__)
    case 3: int8_rows_as(3, w, j, n, x, x_stride, k, sum); break;
    default: int8_rows_as(4, w, j, n, x, x_stride, k, sum); break;
#endif
    }
}

static void int8_task(void *ctx, int64_t task, int thread) {
    const sac_linear_args *a = ctx;
    int64_t first = task * INT8_GROUP_ROWS, n = sac_min_i64(INT8_GROUP_ROWS, a->y.cols - first);
    float sum[INT8_X][INT8_GROUP_ROWS];
    (void)thread;
    for (int64_t i = 0; i < a->x.rows; i += INT8_X) { /* a second pass finds the weights in the cache */
        int64_t n_x = sac_min_i64(INT8_X, a->x.rows - i);
        int8_rows(n_x, &a->w, first, n, sac_mat_row_f32(a->x, i), a->x.stride, a->x.cols, sum);
        linear_finish_rows(a, i, n_x, first, sum[0], INT8_GROUP_ROWS, n);
    }
}

/* ---- many rows ---- */

/* Elements [k0, k0 + k) of row j as f32. */
static void unpack_row(const sac_weight *w, int64_t j, int64_t k0, int64_t k, float *y) {
    const int8_t *q = (const int8_t *)w->tensor.data + j * w->tensor.dim[1];
    for (int64_t p = k0; p < k0 + k;) {
        int64_t g = p / w->group, end = sac_min_i64(k0 + k, (g + 1) * w->group), at = first_scale(w, j) + g;
        vf scale = vf_set1(scale_at(w, at)), zero = vf_set1(zero_at(w, at));
        for (; p + VF <= end; p += VF) vf_store(y + p - k0, vf_mul(scale, vf_sub(vf_load_i8(q + p), zero)));
        if (p < end)
            vf_store_part(y + p - k0, vf_mul(scale, vf_sub(vf_load_i8_part(q + p, end - p), zero)), end - p);
        p = end;
    }
}

static void pack_int8(const sac_linear_args *a, int64_t j, int64_t n, int64_t k0, int64_t k, float *panel) {
    float unpacked[GEMM_PANEL][GEMM_MAX_K];
    const void *row[GEMM_PANEL];
    for (int64_t i = 0; i < n; i++) {
        unpack_row(&a->w, j + i, k0, k, unpacked[i]);
        row[i] = unpacked[i];
    }
    SAC_ISA(sac_pack)(SAC_DTYPE_F32, row, n, k, panel, GEMM_PANEL);
}

sac_status SAC_ISA(sac_linear_int8)(const sac_stream *s, const sac_linear_args *a) {
    if (a->x.rows == 0) return SAC_OK;
    if (a->x.rows > LINEAR_FEW_ROWS && !a->steady)
        linear_gemm(s, a, pack_int8);
    else
        sac_pool_run(s->pool, sac_div_up(a->y.cols, INT8_GROUP_ROWS), int8_task, (void *)(uintptr_t)a);
    return SAC_OK;
}
