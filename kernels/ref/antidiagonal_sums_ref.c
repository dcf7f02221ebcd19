#include "ref.h"

#include <math.h>

/* s(t, u) without its scale. */
static double meet(const sac_antidiagonal_sums_args *a, int head, int64_t t, int64_t u) {
    const sac_kv_view *kv = &a->kv;
    int kv_head = head / (a->n_heads / kv->n_heads);
    double sum = 0;
    for (int64_t i = 0; i < a->step; i++) {
        int64_t query = t * a->step + a->step - 1 - i, key = u * a->step + i;
        if (query >= a->q.rows || key >= kv->n_rows) continue;
        const float *q = sac_mat_row_f32(a->q, query) + (int64_t)head * kv->head_dim;
        int64_t at = key * kv->row_stride + kv_head * kv->head_stride;
        for (int c = 0; c < kv->head_dim; c++)
            sum += (double)q[c] * (double)sac_ref_load(kv->dtype, kv->k, at + c);
    }
    return sum;
}

/* Adds the weights of unit t, of n_units in its block, to the block's sums. */
static void add_unit(const sac_antidiagonal_sums_args *a, int head, int64_t t, int64_t n_units, float *scores,
                     double *sums) {
    double max = -INFINITY, total = 0;
    int64_t n = sac_antidiagonal_seen(a, t);
    for (int64_t u = 0; u < n; u++) {
        scores[u] = (float)(meet(a, head, t, u) * (double)a->scale / (double)a->step);
        max = fmax(max, (double)scores[u]);
    }
    for (int64_t u = 0; u < n; u++) total += exp((double)scores[u] - max);
    for (int64_t u = 0; u < n; u++)
        sums[u * a->step / a->block] += exp((double)scores[u] - max) / total / (double)n_units;
}

sac_status sac_ref_antidiagonal_sums(const sac_stream *s, const sac_antidiagonal_sums_args *a) {
    int64_t n_columns = (a->first + a->q.rows + a->block - 1) / a->block, each = a->block / a->step;
    int64_t n_units = (a->q.rows + a->step - 1) / a->step, n_keys = sac_antidiagonal_units(a);
    double *sums = sac_stream_thread_scratch(s, 0);
    assert(a->sums && a->scores && sac_ref_is_mat(a->q) && sac_ref_is_kv(&a->kv) && a->q.rows > 0);
    assert(a->step > 0 && a->block > 0 && a->block % a->step == 0 && a->stride >= n_columns);
    assert(a->n_heads % a->kv.n_heads == 0 && a->q.cols == (int64_t)a->n_heads * a->kv.head_dim);
    assert(a->first >= 0 && a->first + a->q.rows <= a->kv.n_rows);
    assert((size_t)n_columns * sizeof *sums <= SAC_THREAD_SCRATCH_BYTES);
    for (int64_t t0 = 0, b = 0; t0 < n_units; t0 += each, b++)
        for (int h = 0; h < a->n_heads; h++) {
            int64_t n = t0 + each < n_units ? each : n_units - t0;
            for (int64_t j = 0; j < n_columns; j++) sums[j] = 0;
            for (int64_t t = t0; t < t0 + n; t++)
                add_unit(a, h, t, n, a->scores + (t * a->n_heads + h) * n_keys, sums);
            for (int64_t j = 0; j < n_columns; j++)
                a->sums[(b * a->n_heads + h) * a->stride + j] = (float)sums[j];
        }
    return SAC_OK;
}
