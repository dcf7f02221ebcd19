#include "packed_rows.h"
#include "ref.h"

#include <math.h>

/* Of row first + i, one a query head. */
static void score_row(const sac_packed_vote_args *a, int64_t i, float *key, double *scores) {
    int d = a->keys.head_dim, group = a->n_heads / a->keys.n_heads;
    for (int h = 0; h < a->n_heads; h++) {
        const float *q = sac_mat_row_f32(a->q, 0) + (int64_t)h * d;
        if (h % group == 0) sac_packed_get_key(&a->keys, h / group, a->first + i, key);
        scores[h] = 0;
        for (int c = 0; c < d; c++) scores[h] += (double)q[c] * (double)key[c];
        scores[h] *= (double)a->scale;
    }
}

/* ln(e^a + e^b) */
static double add_logs(double a, double b) {
    return fmax(a, b) + log1p(exp(-fabs(a - b)));
}

sac_status sac_ref_packed_vote(const sac_stream *s, const sac_packed_vote_args *a) {
    if (sac_is_skipped(a->skip)) return SAC_OK;
    int n_heads = a->n_heads;
    double *lse = sac_stream_thread_scratch(s, 0), *scores = lse + n_heads;
    float *key = (float *)(scores + n_heads);
    assert(sac_packed_is_valid(&a->keys) && sac_ref_is_mat(a->q) &&
           a->q.cols == (int64_t)n_heads * a->keys.head_dim);
    assert(n_heads % a->keys.n_heads == 0 && a->first >= 0 && a->n >= 0 && a->first + a->n <= a->keys.n);
    assert(2 * (size_t)n_heads * sizeof *lse + (size_t)a->keys.head_dim * sizeof *key <=
           SAC_THREAD_SCRATCH_BYTES);
    for (int64_t i = 0; i < a->n; i++) {
        score_row(a, i, key, scores);
        for (int h = 0; h < n_heads; h++) lse[h] = i > 0 ? add_logs(lse[h], scores[h]) : scores[h];
    }
    for (int64_t i = 0; i < a->n; i++) {
        score_row(a, i, key, scores);
        double vote = scores[0] - lse[0];
        for (int h = 1; h < n_heads; h++) vote = add_logs(vote, scores[h] - lse[h]);
        a->votes[i] = (float)vote;
    }
    return SAC_OK;
}
