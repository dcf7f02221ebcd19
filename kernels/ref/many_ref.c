#include "ref.h"

/* A row of heads, turned where there is a rotation. */
static void turn_row(float *x, int n_heads, int head_dim, const sac_rotation *r, int64_t pos) {
    for (int head = 0; head < n_heads; head++, x += head_dim)
        for (int i = 0; i < r->rot_dim / 2; i++) {
            sac_ref_pair p = sac_ref_pair_at(r, i);
            double u = (double)x[p.first], v = (double)x[p.second];
            sac_ref_turn(r, pos, i, false, &u, &v);
            x[p.first] = (float)u;
            x[p.second] = (float)v;
        }
}

sac_status sac_ref_store_many(const sac_stream *s, const sac_store_many_args *a) {
    float *key = sac_stream_thread_scratch(s, 0);
    for (int i = 0; i < a->n; i++) {
        const sac_token_store *e = &a->each[i];
        const sac_kv_view *kv = &e->kv;
        int d = kv->head_dim;
        assert(sac_ref_is_mat(e->q) && sac_ref_is_mat(e->k) && sac_ref_is_mat(e->v) && e->pos);
        assert(e->q.rows == 1 && e->k.rows == 1 && e->v.rows == 1 && e->q.cols == (int64_t)e->n_heads * d);
        assert(e->k.cols == (int64_t)kv->n_heads * d && e->v.cols == e->k.cols);
        assert(sac_ref_is_kv(kv) && e->first >= 0 && e->first < kv->n_rows);
        assert(sac_ref_is_rotation(&e->rotation, d));
        turn_row(sac_mat_row_f32(e->q, 0), e->n_heads, d, &e->rotation, e->pos[0]);
        for (int head = 0; head < kv->n_heads; head++) {
            int64_t to = e->first * kv->row_stride + head * kv->head_stride, from = (int64_t)head * d;
            for (int c = 0; c < d; c++) key[c] = sac_mat_row_f32(e->k, 0)[from + c];
            turn_row(key, 1, d, &e->rotation, e->pos[0]);
            for (int c = 0; c < d; c++) {
                sac_ref_store(kv->dtype, kv->k, to + c, key[c]);
                sac_ref_store(kv->dtype, kv->v, to + c, sac_mat_row_f32(e->v, 0)[from + c]);
            }
        }
    }
    return SAC_OK;
}

sac_status sac_ref_attention_many(const sac_stream *s, const sac_attention_many_args *a) {
    for (int i = 0; i < a->n; i++) SAC_TRY(sac_ref_attention(s, &a->each[i]));
    return SAC_OK;
}

sac_status sac_ref_packed_step_many(const sac_stream *s, const sac_packed_step_many_args *a) {
    for (int i = 0; i < a->n; i++) SAC_TRY(sac_ref_packed_step(s, &a->each[i]));
    return SAC_OK;
}
