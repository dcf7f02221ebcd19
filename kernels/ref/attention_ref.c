#include "ref.h"

#include "segments.h"

#include <math.h>
#include <string.h>

static int64_t kv_batch_rows(const sac_attention_args *a) {
    return a->kv_batch_rows ? a->kv_batch_rows : a->batch_rows;
}

static void assert_attention(const sac_attention_args *a) {
    const sac_kv_view *kv = &a->kv;
    int64_t n_rows = a->n_batch == 1 ? a->n_q : (a->n_batch - 1) * a->batch_rows + a->n_q;
    assert(sac_ref_is_mat(a->q) && sac_ref_is_mat(a->o) && a->n_batch >= 1);
    assert(a->q.rows >= n_rows && a->o.rows >= n_rows && a->n_q >= 0 && a->n_kv >= 0);
    assert(a->n_batch == 1 || (a->batch_rows >= a->n_q && kv_batch_rows(a) >= a->n_kv));
    assert(a->q.cols == (int64_t)a->n_heads * kv->head_dim && a->o.cols == a->q.cols);
    assert(sac_ref_is_kv(kv) || (sac_ref_is_kv_pages(kv) && a->n_batch == 1));
    assert(a->n_heads % kv->n_heads == 0);
    assert(a->n_batch == 1 || (!a->lists && !a->lse && !a->n_spans));
    assert(!a->n_spans || (!a->lists && a->spans));
    assert(a->softcap >= 0);
    assert(a->lists ? sac_ref_is_lists(a->lists, kv, a->n_heads)
                    : (a->n_batch - 1) * kv_batch_rows(a) + a->n_kv <= kv->n_rows);
    assert((size_t)kv->head_dim * sizeof(double) <= SAC_THREAD_SCRATCH_BYTES);
    (void)kv;
    (void)n_rows;
}

static bool sees(const sac_attention_args *a, int64_t query, int64_t key_row) {
    int64_t position = a->first + query;
    if (a->causal && key_row > position && key_row >= sac_span_end(a, position)) return false;
    return a->window == 0 || key_row > position - a->window;
}

/* One query of one head. The running maximum keeps every exponent <= 0; what was summed so far is in units of
 * the old maximum and is rescaled when it grows. A query that sees no key gives zeros. */
static void attend(const sac_attention_args *a, int64_t batch, int64_t query, int head, double *acc) {
    const sac_kv_view *kv = &a->kv;
    int d = kv->head_dim;
    int64_t kv_head = (int64_t)(head / (a->n_heads / kv->n_heads)) * kv->head_stride;
    const float *q = sac_mat_row_f32(a->q, batch * a->batch_rows + query) + (int64_t)head * d;
    int list = a->lists ? sac_ref_list_of(a->lists, head, a->n_heads) : 0;
    int64_t begin = a->lists ? a->lists->start[list] : 0,
            end = a->lists ? a->lists->start[list + 1] : a->n_kv;
    double max = -INFINITY, sum = 0;
    memset(acc, 0, (size_t)d * sizeof *acc);
    for (int64_t j = begin; j < end; j++) {
        int64_t row = a->lists ? a->lists->rows[j] : j;
        if (!sees(a, query, row)) continue;
        int64_t at = sac_kv_row_at(kv, batch * kv_batch_rows(a) + row) + kv_head;
        double score = 0;
        for (int c = 0; c < d; c++) score += (double)q[c] * (double)sac_ref_load(kv->dtype, kv->k, at + c);
        score *= (double)a->scale;
        if (a->softcap > 0) score = (double)a->softcap * tanh(score / (double)a->softcap);
        double new_max = score > max ? score : max;
        double rescale = exp(max - new_max), p = exp(score - new_max);
        sum = sum * rescale + p;
        for (int c = 0; c < d; c++)
            acc[c] = acc[c] * rescale + p * (double)sac_ref_load(kv->dtype, kv->v, at + c);
        max = new_max;
    }
    float *o = sac_mat_row_f32(a->o, batch * a->batch_rows + query) + (int64_t)head * d;
    for (int c = 0; c < d; c++) o[c] = sum > 0 ? (float)(acc[c] / sum) : 0.0f;
    if (a->lse) a->lse[query * a->n_heads + head] = sum > 0 ? (float)(log(sum) + max) : -INFINITY;
}

sac_status sac_ref_attention_blocks(const sac_stream *s, const sac_attention_args *a,
                                    sac_status (*fn)(const sac_stream *s, const sac_attention_args *a)) {
    assert(a->lists && a->list_block > 0 && a->n_batch == 1);
    sac_row_lists lists = *a->lists;
    for (int64_t at = 0; at < a->n_q; at += a->list_block, lists.start += lists.n_lists) {
        sac_attention_args block = *a;
        block.lists = &lists;
        block.list_block = 0;
        block.n_q = a->n_q - at < a->list_block ? a->n_q - at : a->list_block;
        block.q = sac_mat_rows(a->q, at, block.n_q);
        block.o = sac_mat_rows(a->o, at, block.n_q);
        block.first = a->first + at;
        if (a->lse) block.lse = a->lse + at * a->n_heads;
        SAC_TRY(fn(s, &block));
    }
    return SAC_OK;
}

static sac_status attend_segments(const sac_stream *s, const sac_attention_args *a) {
    int64_t end = a->segment_start[a->n_segments];
    assert(a->segment_start[0] >= 0 && end <= a->q.rows && end <= a->o.rows && end <= a->kv.n_rows);
    assert(!a->causal && !a->window && !a->lists && !a->lse && !a->kv.pages && !a->n_spans && a->softcap == 0);
    (void)end;
    return sac_attention_by_segments(s, a, sac_ref_attention);
}

sac_status sac_ref_attention(const sac_stream *s, const sac_attention_args *a) {
    if (a->list_block) return sac_ref_attention_blocks(s, a, sac_ref_attention);
    if (a->segment_start) return attend_segments(s, a);
    assert_attention(a);
    for (int64_t batch = 0; batch < a->n_batch; batch++)
        for (int64_t query = 0; query < a->n_q; query++)
            for (int head = 0; head < a->n_heads; head++)
                attend(a, batch, query, head, sac_stream_thread_scratch(s, 0));
    return SAC_OK;
}
