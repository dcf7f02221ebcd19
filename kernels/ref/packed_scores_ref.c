#include "packed_rows.h"
#include "ref.h"

/* Key of place i of a list, as it meets the query. */
static void load_key(const sac_packed_scores_args *a, int head, int64_t list, int64_t i, float *packed,
                     double *key) {
    int64_t at = list * a->n + i, row = a->rows ? a->rows[at] : a->first + i;
    assert(row >= 0 && row < a->keys.n);
    sac_packed_get_key(&a->keys, head, row, packed);
    for (int c = 0; c < a->keys.head_dim; c++) key[c] = (double)packed[c];
    for (int j = 0; a->turn_back && j < a->rotation->rot_dim / 2; j++) {
        sac_ref_pair p = sac_ref_pair_at(a->rotation, j);
        sac_ref_turn(a->rotation, a->turn_back[at], j, true, &key[p.first], &key[p.second]);
    }
}

sac_status sac_ref_packed_scores(const sac_stream *s, const sac_packed_scores_args *a) {
    if (sac_is_skipped(a->skip)) return SAC_OK;
    int d = a->keys.head_dim, n_lists = a->rows || a->turn_back ? a->n_lists : 1;
    double *key = sac_stream_thread_scratch(s, 0);
    float *packed = (float *)(key + d);
    assert(sac_packed_is_valid(&a->keys) && sac_ref_is_mat(a->q) && a->q.cols == (int64_t)a->n_heads * d);
    assert(a->n_heads % a->keys.n_heads == 0 && a->n <= a->stride &&
           (a->rows || a->first + a->n <= a->keys.n));
    assert(a->first == 0 || (a->first > 0 && !a->rows && !a->turn_back));
    assert(n_lists == 1 || n_lists == a->keys.n_heads || n_lists == a->n_heads);
    assert(!a->turn_back || sac_ref_is_rotation(a->rotation, d));
    assert((size_t)d * (sizeof *key + sizeof *packed) <= SAC_THREAD_SCRATCH_BYTES);
    for (int h = 0; h < a->n_heads; h++)
        for (int64_t i = 0; i < a->n; i++) {
            const float *q = sac_mat_row_f32(a->q, 0) + (int64_t)h * d;
            double sum = 0;
            load_key(a, h / (a->n_heads / a->keys.n_heads), h / (a->n_heads / n_lists), i, packed, key);
            for (int c = 0; c < d; c++) sum += (double)q[c] * key[c];
            a->scores[h * a->stride + i] = (float)(sum * (double)a->scale);
        }
    if (!a->lse) return SAC_OK;
    return sac_ref_softmax(
        s, &(sac_softmax_args){
               .scores = a->scores, .stride = a->stride, .n = a->n, .n_rows = a->n_heads, .lse = a->lse});
}
