/* columns_tmpl.h - weights packed with the outputs side by side, on vectors of outputs: x keeps f32 precision. The
 * file that includes this has said how VF outputs are unpacked:
 *
 *   COLUMNS_STEP                 inputs that one load holds; groups hold whole steps
 *   columns_load(w, step, j)     what holds inputs [step COLUMNS_STEP, ...) of outputs [j, j + VF)
 *   columns_values(load, i)      input i of these
 *   columns_zeros(w, g, j)       the zeros of group g
 *   COLUMNS_ORDER                whether the group of an input may stand in w->order
 *
 * n is a multiple of 8. A few rows of x meet the weights as they lie: a group's sums of q x, less the zero times the
 * sum of x, are scaled when they are whole. For many, panels are unpacked to f32 (linear_gemm_tmpl.h). A sum's bits depend
 * neither on the number of threads nor, as long as rows are few or `steady`, on the rows beside it. */
#include "cpu/linear_gemm_tmpl.h"
#include "ref/ref.h"

/* Rows of x that meet at a time, sums kept in registers, and outputs of a task: a line of words of 4 bits. */
enum { COLUMNS_X = 4, COLUMNS_SUMS = VF == 16 ? 16 : 8, COLUMNS_TASK = 128 };

SAC_INLINE vf columns_scales(const sac_weight *w, int64_t g, int64_t j) {
    const int64_t at = g * w->tensor.dim[0] + j;
    switch ((int)w->scales.dtype) {
    case SAC_DTYPE_F32: return vf_load((const float *)w->scales.data + at);
    case SAC_DTYPE_F16: return vf_load_f16((const uint16_t *)w->scales.data + at);
    default: return vf_load_bf16((const uint16_t *)w->scales.data + at);
    }
}

typedef struct columns_sums {
    vf at[COLUMNS_X][COLUMNS_SUMS], x[COLUMNS_X]; /* of q x, and of x */
} columns_sums;

/* What inputs [step COLUMNS_STEP, end COLUMNS_STEP) add. */
SAC_INLINE void columns_steps(const int n_v, const int n_x, const sac_weight *w, int64_t j, const float *x,
                              int64_t x_stride, int64_t step, int64_t end, columns_sums *sums) {
    for (; step < end; step++) {
        vi words[COLUMNS_SUMS];
#pragma GCC unroll 16
        for (int v = 0; v < n_v; v++) words[v] = columns_load(w, step, j + v * VF);
#pragma GCC unroll 8
        for (int i = 0; i < COLUMNS_STEP; i++) {
            vf xv[COLUMNS_X];
#pragma GCC unroll 4
            for (int r = 0; r < n_x; r++) {
                xv[r] = vf_set1(x[r * x_stride + step * COLUMNS_STEP + i]);
                sums->x[r] = vf_add(sums->x[r], xv[r]);
            }
#pragma GCC unroll 16
            for (int v = 0; v < n_v; v++) {
                vf q = columns_values(words[v], i);
#pragma GCC unroll 4
                for (int r = 0; r < n_x; r++) sums->at[r][v] = vf_fma(q, xv[r], sums->at[r][v]);
            }
        }
    }
}

SAC_INLINE void columns_zero_sums(const int n_v, const int n_x, columns_sums *sums) {
#pragma GCC unroll 4
    for (int r = 0; r < n_x; r++) {
        sums->x[r] = vf_zero();
#pragma GCC unroll 16
        for (int v = 0; v < n_v; v++) sums->at[r][v] = vf_zero();
    }
}

/* sum[r][..] of outputs [j, j + n_v VF) and rows [0, n_x) of x. */
SAC_INLINE void columns_dots(const int n_v, const int n_x, const sac_weight *w, int64_t j, const float *x,
                             int64_t x_stride, float (*sum)[COLUMNS_TASK]) {
    vf total[COLUMNS_X][COLUMNS_SUMS];
    const int64_t k = w->tensor.dim[1];
    for (int r = 0; r < n_x; r++)
        for (int v = 0; v < n_v; v++) total[r][v] = vf_zero();
    for (int64_t g = 0; g * w->group < k; g++) {
        columns_sums sums;
        columns_zero_sums(n_v, n_x, &sums);
        columns_steps(n_v, n_x, w, j, x, x_stride, g * w->group / COLUMNS_STEP,
                      sac_min_i64(k, (g + 1) * w->group) / COLUMNS_STEP, &sums);
        for (int v = 0; v < n_v; v++) {
            vf scale = columns_scales(w, g, j + v * VF), zero = columns_zeros(w, g, j + v * VF);
            for (int r = 0; r < n_x; r++)
                total[r][v] = vf_fma(vf_fnma(zero, sums.x[r], sums.at[r][v]), scale, total[r][v]);
        }
    }
    for (int r = 0; r < n_x; r++)
        for (int v = 0; v < n_v; v++) vf_store(sum[r] + v * VF, total[r][v]);
}

/* The same where each input has a group of its own: every weight is scaled. */
SAC_INLINE void columns_dots_ordered(const int n_v, const int n_x, const sac_weight *w, int64_t j,
                                     const float *x, int64_t x_stride, float (*sum)[COLUMNS_TASK]) {
    columns_sums sums;
    const int32_t *order = w->order.data;
    columns_zero_sums(n_v, n_x, &sums);
    for (int64_t step = 0; step < w->tensor.dim[1] / COLUMNS_STEP; step++)
        for (int v = 0; v < n_v; v++) {
            vi words = columns_load(w, step, j + v * VF);
#pragma GCC unroll 8
            for (int i = 0; i < COLUMNS_STEP; i++) {
                const int64_t p = step * COLUMNS_STEP + i;
                vf q = vf_sub(columns_values(words, i), columns_zeros(w, order[p], j + v * VF));
                q = vf_mul(q, columns_scales(w, order[p], j + v * VF));
                for (int r = 0; r < n_x; r++)
                    sums.at[r][v] = vf_fma(q, vf_set1(x[r * x_stride + p]), sums.at[r][v]);
            }
        }
    for (int r = 0; r < n_x; r++)
        for (int v = 0; v < n_v; v++) vf_store(sum[r] + v * VF, sums.at[r][v]);
}

SAC_INLINE void columns_outputs(const int n_v, const int n_x, const sac_weight *w, int64_t j, const float *x,
                                int64_t x_stride, float (*sum)[COLUMNS_TASK]) {
    if (COLUMNS_ORDER && w->order.data)
        columns_dots_ordered(n_v, n_x, w, j, x, x_stride, sum);
    else
        columns_dots(n_v, n_x, w, j, x, x_stride, sum);
}

/* Outputs [j, j + n). A last vector that they do not fill begins among those before it, which its lanes do not need. */
SAC_INLINE void columns_rows_as(const int n_x, const sac_weight *w, int64_t j, int64_t n, const float *x,
                                int64_t x_stride, float (*sum)[COLUMNS_TASK]) {
    const int n_v = COLUMNS_SUMS / n_x;
    int64_t i = 0;
    for (; i + n_v * VF <= n; i += n_v * VF)
        columns_outputs(n_v, n_x, w, j + i, x, x_stride, (float(*)[COLUMNS_TASK])(sum[0] + i));
    for (; i + VF <= n; i += VF)
        columns_outputs(1, n_x, w, j + i, x, x_stride, (float(*)[COLUMNS_TASK])(sum[0] + i));
    if (i == n) return;
    float last[COLUMNS_X][COLUMNS_TASK];
    columns_outputs(1, n_x, w, j + n - VF, x, x_stride, last);
    for (int r = 0; r < n_x; r++) memcpy(sum[r] + i, last[r] + VF - (n - i), (size_t)(n - i) * sizeof(float));
}

/* Outputs [first, first + n), at most COLUMNS_TASK. */
static void columns_some(const sac_linear_args *a, int64_t first, int64_t n) {
    float sum[COLUMNS_X][COLUMNS_TASK];
    for (int64_t i = 0; i < a->x.rows;) { /* a second pass finds the weights in the cache */
        int64_t left = a->x.rows - i, n_x = left >= 4 ? 4 : left >= 2 ? 2 : 1;
        const float *x = sac_mat_row_f32(a->x, i);
        switch (n_x) { /* a constant in each copy */
        case 1: columns_rows_as(1, &a->w, first, n, x, a->x.stride, sum); break;
        case 2: columns_rows_as(2, &a->w, first, n, x, a->x.stride, sum); break;
        default: columns_rows_as(4, &a->w, first, n, x, a->x.stride, sum); break;
        }
        linear_finish_rows(a, i, n_x, first, sum[0], COLUMNS_TASK, n);
        i += n_x;
    }
}

static void columns_few(const sac_linear_args *a, int64_t first, int64_t n) {
    for (int64_t i = 0; i < n; i += COLUMNS_TASK) columns_some(a, first + i, sac_min_i64(COLUMNS_TASK, n - i));
}

static void columns_task(void *ctx, int64_t task, int thread) {
    const sac_linear_args *a = ctx;
    const int64_t first = task * COLUMNS_TASK;
    (void)thread;
    columns_some(a, first, sac_min_i64(COLUMNS_TASK, a->y.cols - first));
}

/* ---- many rows ---- */

/* VF outputs from j on of inputs [k0, k0 + k), whole steps, to columns of a panel; of the lanes, n from `lane` on. */
SAC_INLINE void columns_unpack(const sac_weight *w, int64_t j, int lane, int64_t n, int64_t k0, int64_t k,
                               float *panel) {
    const int32_t *order = COLUMNS_ORDER ? w->order.data : NULL;
    float lanes[VF];
    for (int64_t p = k0; p < k0 + k;) {
        int64_t g = p / w->group, end = order ? p + COLUMNS_STEP : sac_min_i64(k0 + k, (g + 1) * w->group);
        vf scale = columns_scales(w, g, j), zero = columns_zeros(w, g, j);
        for (; p < end; p += COLUMNS_STEP) {
            vi words = columns_load(w, p / COLUMNS_STEP, j);
#pragma GCC unroll 8
            for (int i = 0; i < COLUMNS_STEP; i++) {
                if (order)
                    scale = columns_scales(w, order[p + i], j), zero = columns_zeros(w, order[p + i], j);
                vf v = vf_mul(scale, vf_sub(columns_values(words, i), zero));
                float *to = panel + (p + i - k0) * GEMM_PANEL;
                if (n == VF) {
                    vf_store(to, v);
                } else {
                    vf_store(lanes, v);
                    memcpy(to, lanes + lane, (size_t)n * sizeof *to);
                }
            }
        }
    }
}

static void columns_pack(const sac_linear_args *a, int64_t j, int64_t n, int64_t k0, int64_t k,
                         float *panel) {
    for (int64_t v = 0; v < n; v += VF) { /* columns behind n are not looked at */
        int64_t lanes = sac_min_i64(VF, n - v);
        if (lanes == VF)
            columns_unpack(&a->w, j + v, 0, VF, k0, k, panel + v);
        else
            columns_unpack(&a->w, j + n - VF, (int)(VF - lanes), lanes, k0, k, panel + v);
    }
}

/* Matrices of fewer outputs than a vector has lanes are not for it. */
static sac_status columns_linear(const sac_stream *s, const sac_linear_args *a) {
    if (a->x.rows == 0) return SAC_OK;
    if (a->y.cols < VF) return sac_ref_linear(s, a);
    if (a->n_unsteady)
        linear_gemm_both(s, a, columns_pack, columns_few);
    else if (a->x.rows > LINEAR_FEW_ROWS && !a->steady)
        linear_gemm(s, a, columns_pack);
    else
        sac_pool_run(s->pool, sac_div_up(a->y.cols, COLUMNS_TASK), columns_task, (void *)(uintptr_t)a);
    return SAC_OK;
}
