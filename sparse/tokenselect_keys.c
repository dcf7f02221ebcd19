/* tokenselect_keys.c - TokenSelect's vote over a copy of the keys in 4 bits: as they were before rope, or, where the
 * vote is at true positions, as they are stored; one range a row and head, as in Twilight's copies (arXiv:2502.02770).
 * A quarter of the bytes of 16-bit keys, and nothing to turn where they are read.
 *
 * The last `local` tokens are never candidates, so rows are packed that many at a time, and in most steps
 * nothing is. What a row becomes does not depend on when. */
#include "tokenselect.h"

enum { MOST_AT_ONCE = 4096 /* rows that are turned back, then packed */ };

static int64_t rows_at_once(const sac_attention_shape *shape) {
    return shape->n_ctx < MOST_AT_ONCE ? shape->n_ctx : MOST_AT_ONCE;
}

static float vote_scale(const sac_tokenselect *s, const sac_layer_attention *a) {
    return s->p[TS_SCALE] == 0 ? 1.0f : a->scale;
}

void sac_tokenselect_take_copy(sac_tokenselect *s, const sac_attention_shape *shape,
                               const sac_memory *memory) {
    size_t n_rows = (size_t)rows_at_once(shape);
    size_t row = (size_t)shape->n_kv_heads * (size_t)shape->head_dim * sizeof *s->unturned;
    if (s->p[TS_KEYS] == 0) return;
    s->copy = sac_take_host(memory, (size_t)shape->n_layers * sizeof *s->copy);
    for (int i = 0; i < shape->n_layers; i++) {
        sac_packed_rows copy =
            sac_key_copy_take(shape, sac_key_copy_capacity(shape), shape->head_dim, 4, memory);
        if (s->copy) s->copy[i] = copy;
    }
    if (sac_tokenselect_votes_true(s->p)) return; /* nothing is turned */
    s->unturned = sac_take_device(memory, n_rows * row);
    s->pack_rows = sac_take_device(memory, n_rows * sizeof *s->pack_rows);
    s->pack_start = sac_take_device(memory, 2 * sizeof *s->pack_start);
}

/* Rows [first, first + n): turned back by their own numbers, then packed. */
static sac_status pack_block(sac_tokenselect *s, const sac_layer_attention *a, int64_t first, int64_t n) {
    int64_t d = a->shape->head_dim;
    const sac_row_lists list = {s->pack_rows, s->pack_start, 1};
    sac_packed_rows to = s->copy[a->layer];
    sac_kv_view keys = {.k = s->unturned,
                        .v = s->unturned, /* not written */
                        .dtype = SAC_DTYPE_F32,
                        .n_heads = a->shape->n_kv_heads,
                        .head_dim = (int)d,
                        .n_rows = n,
                        .row_stride = d,
                        .head_stride = rows_at_once(a->shape) * d};
    SAC_TRY(a->ops->choice_rows(
        a->stream, &(sac_choice_rows_args){
                       .rows = s->pack_rows, .local = n, .n_rows = first + n, .start = s->pack_start}));
    SAC_TRY(a->ops->kv_gather(a->stream, &(sac_kv_gather_args){.dst = keys,
                                                               .src = a->kv,
                                                               .lists = &list,
                                                               .turn_back = s->pack_rows,
                                                               .rotation = &a->rotation,
                                                               .keys_only = true}));
    to.n = first + n;
    return a->ops->pack_rows(
        a->stream, &(sac_pack_rows_args){.p = to, .kv = keys, .rows = {NULL, n, 0, 1}, .to = first});
}

/* The same rows as they are. */
static sac_status pack_stored(sac_tokenselect *s, const sac_layer_attention *a, int64_t first, int64_t n) {
    sac_packed_rows to = s->copy[a->layer];
    to.n = first + n;
    return a->ops->pack_rows(
        a->stream, &(sac_pack_rows_args){.p = to, .kv = a->kv, .rows = {NULL, n, first, 1}, .to = first});
}

sac_status sac_tokenselect_pack(sac_tokenselect *s, const sac_layer_attention *a, int64_t n_rows) {
    if (!s->copy || s->copy[a->layer].n >= n_rows) return SAC_OK;
    sac_packed_rows *copy = &s->copy[a->layer];
    bool as_stored = sac_tokenselect_votes_true(s->p);
    while (copy->n < a->kv.n_rows) {
        int64_t n = a->kv.n_rows - copy->n;
        if (n > rows_at_once(a->shape)) n = rows_at_once(a->shape);
        SAC_TRY((as_stored ? pack_stored : pack_block)(s, a, copy->n, n));
        copy->n += n;
    }
    return SAC_OK;
}

sac_status sac_tokenselect_copy_scores(sac_tokenselect *s, const sac_layer_attention *a, int64_t n,
                                       const float *q) {
    return a->ops->packed_scores(a->stream,
                                 &(sac_packed_scores_args){.scores = s->scores,
                                                           .stride = a->shape->n_ctx,
                                                           .n = n,
                                                           .q = sac_mat_f32((float *)q, 1, a->q.cols),
                                                           .keys = s->copy[a->layer],
                                                           .n_heads = a->shape->n_heads,
                                                           .scale = vote_scale(s, a),
                                                           .first = (int64_t)s->p[TS_INIT],
                                                           .skip = s->skip.device});
}

sac_status sac_tokenselect_copy_vote(sac_tokenselect *s, const sac_layer_attention *a, int64_t n,
                                     const float *q) {
    return a->ops->packed_vote(a->stream, &(sac_packed_vote_args){.votes = s->votes,
                                                                  .n = n,
                                                                  .q = sac_mat_f32((float *)q, 1, a->q.cols),
                                                                  .keys = s->copy[a->layer],
                                                                  .n_heads = a->shape->n_heads,
                                                                  .scale = vote_scale(s, a),
                                                                  .first = (int64_t)s->p[TS_INIT],
                                                                  .scores = s->scores,
                                                                  .stride = a->shape->n_ctx,
                                                                  .lse = s->lse,
                                                                  .skip = s->skip.device});
}
