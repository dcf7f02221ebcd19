#include "ref.h"

static void score(const sac_key_scores_args *a, int head, int64_t row, double *key, float *out) {
    const sac_kv_view *kv = &a->kv;
    const float *q = a->q + (int64_t)head * kv->head_dim;
    double sum = 0;
    sac_ref_load_key(kv, row, head / (a->n_heads / kv->n_heads), a->back, row, key);
    for (int c = 0; c < kv->head_dim; c++) sum += (double)q[c] * key[c];
    *out = (float)(sum * (double)a->scale);
}

sac_status sac_ref_key_scores(const sac_stream *s, const sac_key_scores_args *a) {
    const sac_row_lists *l = a->lists;
    assert(a->scores && a->q && sac_ref_is_kv(&a->kv) && a->n_heads % a->kv.n_heads == 0);
    assert(l ? sac_ref_is_lists(l, &a->kv, a->n_heads)
             : a->first >= 0 && a->n >= 0 && a->first + a->n <= a->kv.n_rows && a->stride >= a->n);
    assert(!a->back || sac_ref_is_rotation(a->back, a->kv.head_dim));
    assert((size_t)a->kv.head_dim * sizeof(double) <= SAC_THREAD_SCRATCH_BYTES);
    for (int head = 0; head < a->n_heads; head++) {
        int list = l ? sac_ref_list_of(l, head, a->n_heads) : 0;
        int64_t n = l ? l->start[list + 1] - l->start[list] : a->n;
        assert(n <= a->stride);
        for (int64_t i = 0; i < n; i++)
            score(a, head, l ? l->rows[l->start[list] + i] : a->first + i, sac_stream_thread_scratch(s, 0),
                  &a->scores[head * a->stride + i]);
    }
    return SAC_OK;
}
