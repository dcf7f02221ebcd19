#include "ref.h"

#include <math.h>

static double softplus(double x) {
    return x > 20 ? x : log1p(exp(x));
}

/* 1 / the length of a key or query. */
static double inverse_length(const float *x, int64_t n, float eps) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return 1 / sqrt(sum + (double)eps);
}

/* Row t of head h. The state is rounded to f32 once a row. */
static void step(const sac_delta_rule_args *a, float *state, int64_t t, int h) {
    const int64_t dk = sac_delta_key_dim(a), dv = sac_delta_value_dim(a), from = h / (a->n_heads / a->n_key_heads) * dk;
    const float *q = sac_mat_row_f32(a->q, t) + from, *k = sac_mat_row_f32(a->k, t) + from,
                *v = sac_mat_row_f32(a->v, t) + h * dv;
    float *y = sac_mat_row_f32(a->y, t) + h * dv, *s = state + h * dk * dv;
    const double q_scale = inverse_length(q, dk, a->eps) / sqrt((double)dk), k_scale = inverse_length(k, dk, a->eps),
                 beta = 1 / (1 + exp(-(double)sac_mat_row_f32(a->b, t)[h])),
                 decay = exp(-exp((double)a->a_log[h]) *
                             softplus((double)sac_mat_row_f32(a->a, t)[h] + (double)a->dt_bias[h]));
    for (int64_t c = 0; c < dv; c++) {
        double held = 0, sum = 0;
        for (int64_t i = 0; i < dk; i++) held += decay * (double)s[i * dv + c] * (double)k[i] * k_scale;
        const double change = ((double)v[c] - held) * beta;
        for (int64_t i = 0; i < dk; i++) {
            const double next = decay * (double)s[i * dv + c] + (double)k[i] * k_scale * change;
            sum += next * (double)q[i] * q_scale;
            s[i * dv + c] = (float)next;
        }
        y[c] = (float)sum;
    }
}

sac_status sac_ref_delta_rule(const sac_stream *s, const sac_delta_rule_args *a) {
    (void)s;
    int64_t t = 0;
    assert(sac_ref_is_mat(a->y) && sac_ref_is_mat(a->v) && sac_ref_same_shape(a->y, a->v));
    assert(sac_ref_is_mat(a->q) && sac_ref_is_mat(a->k) && sac_ref_same_shape(a->q, a->k) && a->q.rows == a->y.rows);
    assert(sac_ref_is_mat(a->a) && sac_ref_is_mat(a->b) && a->a.cols == a->n_heads && sac_ref_same_shape(a->a, a->b));
    assert(a->n_heads % a->n_key_heads == 0 && a->v.cols % a->n_heads == 0 && a->k.cols % a->n_key_heads == 0);
    assert(sac_delta_key_dim(a) <= SAC_DELTA_KEY_MOST);
    for (int i = 0; i < a->n_parts; i++)
        for (int64_t end = t + a->parts[i].n; t < end; t++)
            for (int h = 0; h < a->n_heads; h++) step(a, a->parts[i].state, t, h);
    assert(t == a->y.rows);
    return SAC_OK;
}
