#include "ref.h"

#include <math.h>
#include <string.h>

static double score_of(const sac_block_attention_args *a, const float *q, int64_t at) {
    double score = 0;
    for (int c = 0; c < a->kv.head_dim; c++)
        score += (double)q[c] * (double)sac_ref_load(a->kv.dtype, a->kv.k, at + c);
    return score * (double)a->scale;
}

/* One query of one head, with a running maximum as attention has it; returns the rows that it met. */
static int64_t attend(const sac_block_attention_args *a, int64_t query, int head, double *acc) {
    const sac_kv_view *kv = &a->kv;
    int d = kv->head_dim;
    const int32_t *columns = a->columns + (query / a->block * a->n_heads + head) * a->stride;
    const float *q = sac_mat_row_f32(a->q, query) + (int64_t)head * d;
    int64_t kv_head = (int64_t)(head / (a->n_heads / kv->n_heads)) * kv->head_stride;
    double max = -INFINITY, sum = 0;
    int64_t n_met = 0;
    memset(acc, 0, (size_t)d * sizeof *acc);
    for (int64_t i = 0; i < a->stride && columns[i] >= 0; i++)
        for (int64_t row = columns[i] * a->block; row < (columns[i] + 1) * a->block; row++) {
            if (row > a->first + query) break;
            int64_t at = row * kv->row_stride + kv_head;
            double score = score_of(a, q, at), new_max = score > max ? score : max;
            double rescale = exp(max - new_max), p = exp(score - new_max);
            sum = sum * rescale + p;
            for (int c = 0; c < d; c++)
                acc[c] = acc[c] * rescale + p * (double)sac_ref_load(kv->dtype, kv->v, at + c);
            max = new_max;
            n_met++;
        }
    assert(n_met > 0);
    float *o = sac_mat_row_f32(a->o, query) + (int64_t)head * d;
    for (int c = 0; c < d; c++) o[c] = (float)(acc[c] / sum);
    return n_met;
}

sac_status sac_ref_block_attention(const sac_stream *s, const sac_block_attention_args *a) {
    assert(sac_ref_is_mat(a->q) && sac_ref_is_mat(a->o) && sac_ref_is_kv(&a->kv) && a->columns);
    assert(a->o.rows == a->q.rows && a->q.cols == (int64_t)a->n_heads * a->kv.head_dim);
    assert(a->o.cols == a->q.cols && a->n_heads % a->kv.n_heads == 0 && a->block > 0 && a->stride > 0);
    assert(a->first >= 0 && a->first + a->q.rows <= a->kv.n_rows);
    assert((size_t)a->kv.head_dim * sizeof(double) <= SAC_THREAD_SCRATCH_BYTES);
    for (int64_t query = 0; query < a->q.rows; query++)
        for (int head = 0; head < a->n_heads; head++) {
            int64_t n_met = attend(a, query, head, sac_stream_thread_scratch(s, 0));
            int64_t *pairs = a->pairs ? a->pairs + query / a->block * a->n_heads + head : NULL;
            if (pairs) *pairs = (query % a->block ? *pairs : 0) + n_met;
        }
    return SAC_OK;
}
