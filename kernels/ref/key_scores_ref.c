#include "ref.h"

#include <math.h>

static void score(const sac_key_scores_args *a, const float *q, int head, int64_t row, double *key,
                  float *out) {
    const sac_kv_view *kv = &a->kv;
    double sum = 0;
    sac_ref_load_key(kv, row, head / (a->n_heads / kv->n_heads), a->back, row, key);
    for (int c = 0; c < kv->head_dim; c++) sum += (double)q[(int64_t)head * kv->head_dim + c] * key[c];
    *out = (float)(sum * (double)a->scale);
}

sac_status sac_ref_key_scores_sums(const sac_stream *s, const sac_key_scores_args *a) {
    int n_queries = a->n_queries > 1 ? a->n_queries : 1;
    return sac_ref_softmax(s, &(sac_softmax_args){.scores = a->scores,
                                                  .stride = a->stride,
                                                  .n = a->n + (n_queries - 1) * a->n_more,
                                                  .n_rows = n_queries * a->n_heads,
                                                  .lse = a->lse});
}

sac_status sac_ref_key_scores(const sac_stream *s, const sac_key_scores_args *a) {
    if (sac_is_skipped(a->skip)) return SAC_OK;
    const sac_row_lists *l = a->lists;
    int n_queries = a->n_queries > 1 ? a->n_queries : 1;
    int64_t n_last = a->n + (n_queries - 1) * a->n_more;
    assert(a->scores && a->q && sac_ref_is_kv(&a->kv) && a->n_heads % a->kv.n_heads == 0);
    assert(l ? sac_ref_is_lists(l, &a->kv, a->n_heads)
             : a->first >= 0 && a->n >= 0 && a->first + n_last <= a->kv.n_rows && a->stride >= n_last);
    assert((n_queries == 1 && !a->lse) || (!l && a->n_more >= 0));
    assert(!a->back || sac_ref_is_rotation(a->back, a->kv.head_dim));
    assert((size_t)a->kv.head_dim * sizeof(double) <= SAC_THREAD_SCRATCH_BYTES);
    for (int i = 0; i < n_queries * a->n_heads; i++) {
        int head = i % a->n_heads, query = i / a->n_heads,
            list = l ? sac_ref_list_of(l, head, a->n_heads) : 0;
        int64_t n = l ? l->start[list + 1] - l->start[list] : a->n + query * a->n_more;
        const float *q = a->q + (int64_t)query * a->n_heads * a->kv.head_dim;
        float *scores = a->scores + i * a->stride;
        assert(n <= a->stride);
        for (int64_t j = 0; j < n; j++)
            score(a, q, head, l ? l->rows[l->start[list] + j] : a->first + j, sac_stream_thread_scratch(s, 0),
                  &scores[j]);
        for (int64_t j = n; j < n_last && !l; j++) scores[j] = -INFINITY;
    }
    return a->lse ? sac_ref_key_scores_sums(s, a) : SAC_OK;
}
