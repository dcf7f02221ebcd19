#include "ref.h"

#include <math.h>
#include <string.h>

sac_status sac_ref_choice_step(const sac_stream *s, const sac_choice_step_args *a) {
    const sac_rotation *r = &a->rotation;
    int64_t n_first = a->init + a->n_chosen, n = n_first + a->local, old = a->n_rows - a->local,
            d = a->src.head_dim;
    double *key = sac_stream_thread_scratch(s, 0);
    bool kept = a->kept || sac_is_skipped(a->skip);
    assert(sac_ref_is_rotation(r, (int)d));
    assert(!a->n_heads || (sac_ref_is_mat(a->q) && a->q.rows == 1 && a->q.cols == a->n_heads * d));
    assert(sac_ref_is_kv(&a->dst) && sac_ref_is_kv(&a->src) && a->dst.n_heads == a->src.n_heads);
    assert(a->dst.head_dim == d && a->dst.n_rows >= n && a->src.n_rows >= a->n_rows && a->n_rows >= n);
    for (int64_t i = kept ? n_first : 0; i < n; i++) {
        int64_t row = i < a->init ? i : i < n_first ? a->init + a->chosen[i - a->init] : old + i - n_first;
        for (int h = 0; h < a->src.n_heads; h++) {
            int64_t from = row * a->src.row_stride + h * a->src.head_stride,
                    to = i * a->dst.row_stride + h * a->dst.head_stride;
            sac_ref_load_key(&a->src, row, h, r, row - i, key);
            for (int64_t c = 0; c < d; c++) {
                sac_ref_store(a->dst.dtype, a->dst.k, to + c, (float)key[c]);
                sac_ref_store(a->dst.dtype, a->dst.v, to + c, sac_ref_load(a->src.dtype, a->src.v, from + c));
            }
        }
    }
    int32_t back = (int32_t)(a->n_rows - n);
    if (!a->n_heads) return SAC_OK;
    return sac_ref_rope(s, &(sac_rope_args){a->q, a->n_heads, (int)d, *r, &back, true});
}

static void attend_head(const sac_choice_attend_args *a, int head, double *acc) {
    const sac_rotation *r = &a->rotation;
    int64_t back = a->n_rows - a->n_far - a->local, d = a->src.head_dim;
    int kv_head = head / (a->n_heads / a->src.n_heads);
    float *q = sac_mat_row_f32(a->q, 0) + head * d;
    double *turned = acc + d, max = -INFINITY, sum = 0;
    memset(acc, 0, (size_t)d * sizeof *acc);
    for (int64_t c = 0; c < d; c++) turned[c] = (double)q[c];
    for (int i = 0; i < r->rot_dim / 2; i++) {
        sac_ref_pair p = sac_ref_pair_at(r, i);
        sac_ref_turn(r, back, i, true, &turned[p.first], &turned[p.second]);
    }
    for (int64_t j = 0; j < a->n_far + a->local; j++) {
        bool near = j >= a->n_far;
        const sac_kv_view *kv = near ? &a->src : &a->far;
        int64_t row = near ? a->n_rows - a->local + j - a->n_far : j;
        int64_t at = row * kv->row_stride + kv_head * kv->head_stride;
        double score = 0;
        for (int64_t c = 0; c < d; c++)
            score += (near ? (double)q[c] : turned[c]) * (double)sac_ref_load(kv->dtype, kv->k, at + c);
        score *= (double)a->scale;
        double new_max = fmax(score, max), rescale = exp(max - new_max), p = exp(score - new_max);
        sum = sum * rescale + p;
        for (int64_t c = 0; c < d; c++)
            acc[c] = acc[c] * rescale + p * (double)sac_ref_load(kv->dtype, kv->v, at + c);
        max = new_max;
    }
    for (int64_t c = 0; c < d; c++) q[c] = sum > 0 ? (float)(acc[c] / sum) : 0.0f;
}

sac_status sac_ref_choice_attend(const sac_stream *s, const sac_choice_attend_args *a) {
    assert(sac_ref_is_mat(a->q) && a->q.rows == 1 && a->q.cols == (int64_t)a->n_heads * a->src.head_dim &&
           sac_ref_is_rotation(&a->rotation, a->src.head_dim));
    assert(sac_ref_is_kv(&a->far) && sac_ref_is_kv(&a->src) && a->far.n_heads == a->src.n_heads);
    assert(a->far.head_dim == a->src.head_dim && a->far.n_rows >= a->n_far && a->src.n_rows >= a->n_rows);
    assert(a->n_rows >= a->n_far + a->local && a->n_heads % a->src.n_heads == 0);
    for (int head = 0; head < a->n_heads; head++) attend_head(a, head, sac_stream_thread_scratch(s, 0));
    return SAC_OK;
}
