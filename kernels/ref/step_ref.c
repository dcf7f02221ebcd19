#include "quants.h"
#include "ref.h"
#include "weights/ref_weights.h"
#include "weights/x_rounding.h"

#include <math.h>

enum { MOST_BLOCK = 256 };

/* 1 / sqrt(mean(x^2) + eps) */
static double rms_scale(const float *row, int64_t n, float eps) {
    double sum = 0;
    for (int64_t c = 0; c < n; c++) sum += (double)row[c] * (double)row[c];
    return 1 / sqrt(sum / (double)n + (double)eps);
}

/* (row of x * scale * norm) . row j of w, plus a bias. */
static double product(const float *row, double scale, const float *norm, const sac_weight *w,
                      const float *bias, int64_t j) {
    const sac_dtype t = w->tensor.dtype;
    const int64_t k = w->tensor.dim[1], block = sac_dtype_block(t);
    double sum = bias ? (double)bias[j] : 0;
    for (int64_t c = 0; c < k; c += block) {
        float numbers[MOST_BLOCK];
        if (block == 1)
            numbers[0] = sac_ref_load(t, w->tensor.data, j * k + c);
        else
            sac_dequantize_row(t, (const uint8_t *)w->tensor.data + sac_dtype_row_bytes(t, j * k + c),
                               numbers, block);
        for (int64_t i = 0; i < block; i++)
            sum += (double)row[c + i] * scale * (double)norm[c + i] * (double)numbers[i];
    }
    return sum;
}

/* Weights that are more than one tensor of rows: their scales lie apart. */
static bool is_apart(const sac_weight *w) {
    return sac_ref_weight_of(w)->holds != sac_ref_holds_rows;
}

/* The same as `product` where scales lie apart; x is the normalised row, rounded as the weights ask. */
static double product_apart(const float *x, const sac_weight *w, int64_t j, float *numbers) {
    const int64_t k = w->tensor.dim[1];
    double sum = 0;
    sac_ref_weight_of(w)->row(w, j, k, numbers);
    for (int64_t c = 0; c < k; c++) sum += (double)x[c] * (double)numbers[c];
    return sum;
}

/* The normalised row, rounded as w asks, to floats; scratch: [k] more of them. */
static const float *normed_for(const sac_weight *w, const float *x, double scale, const float *norm,
                               int64_t k, float *normed, float *scratch) {
    for (int64_t c = 0; c < k; c++) normed[c] = (float)((double)x[c] * scale * (double)norm[c]);
    if (!w->x_rounding) return normed;
    sac_round_x(w, normed, scratch, k);
    return scratch;
}

/* A head's channels, turned by pos where there is a rotation. */
static void head_of(const sac_qkv_step_args *a, double scale, const sac_weight *w, const float *bias,
                    int head, bool turn, double *out) {
    int d = a->kv.head_dim;
    const int64_t k = a->x.cols, first = (int64_t)head * d;
    const float *x = sac_mat_row_f32(a->x, 0);
    if (is_apart(w)) {
        float *numbers = (float *)(out + d);
        assert((size_t)d * sizeof *out + 3 * (size_t)k * sizeof *numbers <= SAC_THREAD_SCRATCH_BYTES);
        x = normed_for(w, x, scale, a->norm, k, numbers + k, numbers + 2 * k);
        for (int c = 0; c < d; c++)
            out[c] = product_apart(x, w, first + c, numbers) + (bias ? (double)bias[first + c] : 0);
    } else
        for (int c = 0; c < d; c++) out[c] = product(x, scale, a->norm, w, bias, first + c);
    for (int i = 0; turn && i < a->rotation.rot_dim / 2; i++) {
        sac_ref_pair p = sac_ref_pair_at(&a->rotation, i);
        sac_ref_turn(&a->rotation, a->pos[0], i, false, &out[p.first], &out[p.second]);
    }
}

sac_status sac_ref_qkv_step(const sac_stream *s, const sac_qkv_step_args *a) {
    const sac_kv_view *kv = &a->kv;
    int d = kv->head_dim;
    double *out = sac_stream_thread_scratch(s, 0),
           scale = rms_scale(sac_mat_row_f32(a->x, 0), a->x.cols, a->eps);
    assert(sac_ref_is_mat(a->x) && sac_ref_is_mat(a->q) && a->x.rows == 1 && a->q.rows == 1 && a->norm);
    assert(a->q.cols == (int64_t)a->n_heads * d && a->wq.tensor.dim[0] == a->q.cols &&
           a->wq.tensor.dim[1] == a->x.cols);
    assert(a->wk.tensor.dim[0] == (int64_t)kv->n_heads * d && a->wv.tensor.dim[0] == a->wk.tensor.dim[0]);
    assert(sac_ref_is_kv(kv) && a->first >= 0 && a->first < kv->n_rows && a->pos);
    assert(sac_ref_is_rotation(&a->rotation, d));
    for (int head = 0; head < a->n_heads; head++) {
        head_of(a, scale, &a->wq, a->q_bias, head, true, out);
        for (int c = 0; c < d; c++) sac_mat_row_f32(a->q, 0)[head * d + c] = (float)out[c];
    }
    for (int head = 0; head < kv->n_heads; head++) {
        int64_t to = a->first * kv->row_stride + head * kv->head_stride;
        head_of(a, scale, &a->wk, a->k_bias, head, true, out);
        for (int c = 0; c < d; c++) sac_ref_store(kv->dtype, kv->k, to + c, (float)out[c]);
        head_of(a, scale, &a->wv, a->v_bias, head, false, out);
        for (int c = 0; c < d; c++) sac_ref_store(kv->dtype, kv->v, to + c, (float)out[c]);
    }
    return SAC_OK;
}

static void gate_up_apart(const sac_stream *s, const sac_gate_up_step_args *a, int64_t i) {
    const int64_t k = a->x.cols;
    assert(3 * (size_t)k * sizeof(float) <= SAC_THREAD_SCRATCH_BYTES);
    float *numbers = sac_stream_thread_scratch(s, 0);
    const float *x = sac_mat_row_f32(a->x, i);
    x = normed_for(&a->gate, x, rms_scale(x, k, a->eps), a->norm, k, numbers + k, numbers + 2 * k);
    for (int64_t j = 0; j < a->y.cols; j++) {
        const double g = product_apart(x, &a->gate, j, numbers), u = product_apart(x, &a->up, j, numbers);
        sac_mat_row_f32(a->y, i)[j] = (float)(sac_ref_activation(SAC_ACT_SILU, g) * u);
    }
}

sac_status sac_ref_gate_up_step(const sac_stream *s, const sac_gate_up_step_args *a) {
    int64_t n = a->y.cols;
    assert(sac_ref_is_mat(a->x) && sac_ref_is_mat(a->y) && a->x.rows == a->y.rows && a->norm);
    assert(a->gate.tensor.dim[0] == n && a->up.tensor.dim[0] == n && a->gate.tensor.dim[1] == a->x.cols);
    for (int64_t i = 0; i < a->x.rows; i++) {
        if (is_apart(&a->gate)) {
            gate_up_apart(s, a, i);
            continue;
        }
        const float *x = sac_mat_row_f32(a->x, i);
        double scale = rms_scale(x, a->x.cols, a->eps);
        for (int64_t j = 0; j < n; j++) {
            double g = product(x, scale, a->norm, &a->gate, NULL, j);
            double u = product(x, scale, a->norm, &a->up, NULL, j);
            sac_mat_row_f32(a->y, i)[j] = (float)(sac_ref_activation(SAC_ACT_SILU, g) * u);
        }
    }
    return SAC_OK;
}

sac_status sac_ref_out_step(const sac_stream *s, const sac_out_step_args *a) {
    assert(a->x.rows == a->o.rows && a->x.rows == a->wide.rows && a->gate.tensor.dim[0] == a->wide.cols);
    SAC_TRY(sac_ref_linear(
        s, &(sac_linear_args){.y = a->x, .x = a->o, .w = a->wo, .bias = a->o_bias, .accumulate = true}));
    SAC_TRY(sac_ref_gate_up_step(
        s, &(sac_gate_up_step_args){
               .y = a->wide, .x = a->x, .norm = a->norm, .eps = a->eps, .gate = a->gate, .up = a->up}));
    return sac_ref_linear(s, &(sac_linear_args){.y = a->x, .x = a->wide, .w = a->down, .accumulate = true});
}
