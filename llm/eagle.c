#include "eagle.h"

#include "decoder_run.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Inputs of the widest of its matrices. */
static int64_t widest(const sac_eagle_config *e) {
    const int64_t of_layer = sac_decoder_widest(&e->layer), three = SAC_LAYER_ROWS * (int64_t)e->target_hidden,
                  pair = 2 * (int64_t)e->layer.hidden, more = three > pair ? three : pair;
    return more > of_layer ? more : of_layer;
}

void sac_eagle_take(sac_eagle_state *s, const sac_eagle *head, int64_t n_ctx, int most, const sac_ops *ops, sac_arena *arena) {
    const sac_eagle_config *e = &head->config;
    const sac_decoder_config *c = &e->layer;
    const int64_t chunk = SAC_EAGLE_CHUNK, rows = n_ctx + most;
    *s = (sac_eagle_state){.head = head, .n_ctx = n_ctx, .most = most, .rows = {.hidden = e->target_hidden}};
    memcpy(s->rows.layer, e->at, sizeof e->at);
    s->rows.rows = sac_arena_take(arena, decoder_floats(n_ctx, SAC_LAYER_ROWS * (int64_t)e->target_hidden));
    s->cos_sin = sac_arena_take(arena, decoder_floats(rows, c->rope.rot_dim));
    s->positions = sac_arena_take(arena, (size_t)rows * sizeof *s->positions);
    s->k = sac_arena_take(arena, decoder_floats(rows, decoder_kv_cols(c)));
    s->v = sac_arena_take(arena, decoder_floats(rows, decoder_kv_cols(c)));
    s->logits = sac_arena_take(arena, decoder_floats(1, e->n_draft));
    s->hidden = sac_arena_take(arena, decoder_floats(chunk, c->hidden));
    s->fresh = sac_arena_take(arena, decoder_floats(chunk, c->hidden));
    s->pair = sac_arena_take(arena, decoder_floats(chunk, 2 * (int64_t)c->hidden));
    s->q = sac_arena_take(arena, decoder_floats(chunk, decoder_q_cols(c)));
    s->new_k = sac_arena_take(arena, decoder_floats(chunk, decoder_kv_cols(c)));
    s->new_v = sac_arena_take(arena, decoder_floats(chunk, decoder_kv_cols(c)));
    s->norm = sac_arena_take(arena, decoder_floats(chunk, c->hidden));
    s->gate = sac_arena_take(arena, decoder_floats(chunk, c->intermediate));
    s->up = sac_arena_take(arena, decoder_floats(chunk, c->intermediate));
    s->three = sac_arena_take(
        arena, head->fc_norm ? decoder_floats(chunk, SAC_LAYER_ROWS * (int64_t)e->target_hidden) : 1);
    s->ids = sac_arena_take(arena, (size_t)chunk * sizeof *s->ids);
    s->scratch_bytes = ops->linear_scratch_bytes(chunk, widest(e));
    if (s->scratch_bytes) s->scratch = sac_arena_take(arena, s->scratch_bytes);
}

/* Tables for rows of the model before `end`, a chunk of them at a time. */
static void prepare_rows(sac_eagle_state *s, int64_t end) {
    const int64_t n_total = s->n_ctx + s->most, first = s->n_turned;
    if (first >= end) return;
    const int64_t n = decoder_min(end - first + SAC_EAGLE_CHUNK, n_total - first);
    for (int64_t i = first; i < first + n; i++) s->positions[i] = (int32_t)i;
    sac_rope_fill(&s->head->config.layer.rope, &(sac_row_numbers){0}, first, n, n_total, s->cos_sin);
    s->n_turned = first + n;
}

/* ---------------------------------------------------------------- rows of the head */

static sac_mat rows_of(float *data, int64_t n, int64_t cols) {
    return sac_mat_f32(data, n, cols);
}

static sac_block_rows block_rows(const sac_eagle_run *r, int64_t n) {
    const sac_eagle_state *s = r->s;
    const sac_decoder_config *c = &s->head->config.layer;
    return (sac_block_rows){.ops = r->ops,
                            .stream = r->stream,
                            .shape = decoder_block_shape(c),
                            .hidden = rows_of(s->hidden, n, c->hidden),
                            .q = rows_of(s->q, n, decoder_q_cols(c)),
                            .k = rows_of(s->new_k, n, decoder_kv_cols(c)),
                            .v = rows_of(s->new_v, n, decoder_kv_cols(c)),
                            .norm = rows_of(s->norm, n, c->hidden),
                            .gate = rows_of(s->gate, n, c->intermediate),
                            .up = rows_of(s->up, n, c->intermediate)};
}

static sac_status norm_rows(const sac_eagle_run *r, sac_mat y, sac_mat x, const float *w) {
    return r->ops->rmsnorm(r->stream, &(sac_rmsnorm_args){y, x, w, r->s->head->config.layer.rms_eps});
}

/* Of the tokens in s->ids; one that the table does not have, as a picture's placeholder may be, has an embedding of zeros. */
static sac_status embed(const sac_eagle_run *r, int64_t n) {
    sac_eagle_state *s = r->s;
    const sac_weight *own = &s->head->embed, *table = own->tensor.data ? own : r->embed;
    const int64_t vocab = table->tensor.dim[0], cols = s->head->config.layer.hidden;
    bool is_known[SAC_EAGLE_CHUNK];
    for (int64_t i = 0; i < n; i++) {
        is_known[i] = s->ids[i] >= 0 && s->ids[i] < vocab;
        if (!is_known[i]) s->ids[i] = 0;
    }
    SAC_TRY(r->ops->embed(
        r->stream, &(sac_embed_args){.y = rows_of(s->fresh, n, cols), .table = *table, .ids = s->ids}));
    for (int64_t i = 0; i < n; i++)
        if (!is_known[i]) memset(s->fresh + i * cols, 0, (size_t)cols * sizeof(float));
    return SAC_OK;
}

/* What the layer's attention reads: both halves normed, side by side. */
static sac_status make_pairs(const sac_eagle_run *r, int64_t n) {
    const sac_eagle_state *s = r->s;
    const int64_t cols = s->head->config.layer.hidden;
    const sac_mat left = {s->pair, n, cols, 2 * cols, SAC_DTYPE_F32},
                  right = {s->pair + cols, n, cols, 2 * cols, SAC_DTYPE_F32};
    SAC_TRY(norm_rows(r, left, rows_of(s->fresh, n, cols), s->head->embed_norm));
    SAC_TRY(norm_rows(r, right, rows_of(s->hidden, n, cols), s->head->hidden_norm));
    if (!s->head->config.norm_before_residual) return SAC_OK;
    return r->ops->convert_rows(r->stream,
                                &(sac_convert_rows_args){.y = rows_of(s->hidden, n, cols), .x = right});
}

static sac_status attend(const sac_eagle_run *r, const sac_block_part *part) {
    const sac_decoder_config *c = &r->s->head->config.layer;
    const sac_mat q = rows_of(r->s->q, part->n, decoder_q_cols(c));
    return r->ops->attention(r->stream, &(sac_attention_args){.o = q,
                                                              .q = q,
                                                              .kv = part->kv,
                                                              .n_q = part->n,
                                                              .n_kv = part->first + part->n,
                                                              .first = part->first,
                                                              .n_batch = 1,
                                                              .n_heads = c->n_heads,
                                                              .scale = 1.0f / sqrtf((float)c->head_dim),
                                                              .causal = true});
}

/* n rows g in s->hidden, and the tokens behind them in s->ids, become h: rows [at, at + n) of the head's. */
static sac_status run_rows(const sac_eagle_run *r, int64_t at, int64_t n) {
    sac_eagle_state *s = r->s;
    const sac_eagle *e = s->head;
    const sac_decoder_config *c = &e->config.layer;
    const int64_t kv_cols = decoder_kv_cols(c);
    const sac_block_rows out = block_rows(r, n);
    sac_block_rows in = out;
    in.hidden = rows_of(s->pair, n, 2 * (int64_t)c->hidden);
    const sac_block_part part = {.n = n,
                                 .rotation = {.cos_sin = s->cos_sin,
                                              .rot_dim = c->rope.rot_dim,
                                              .interleaved = c->rope.interleaved,
                                              .factor = sac_rope_attention_factor(&c->rope)},
                                 .pos = s->positions + s->rows.first + at,
                                 .kv = {.k = s->k,
                                        .v = s->v,
                                        .dtype = SAC_DTYPE_F32,
                                        .n_heads = c->n_kv_heads,
                                        .head_dim = c->head_dim,
                                        .n_rows = at + n,
                                        .row_stride = kv_cols,
                                        .head_stride = c->head_dim},
                                 .first = at};
    assert(n <= SAC_EAGLE_CHUNK && s->rows.first + at + n <= s->n_ctx + s->most);
    prepare_rows(s, s->rows.first + at + n);
    SAC_TRY(embed(r, n));
    SAC_TRY(make_pairs(r, n));
    SAC_TRY(sac_block_in(&in, &e->layer, &part, 1));
    SAC_TRY(attend(r, &part));
    return sac_block_out(&out, &e->layer);
}

/* Logits behind row `row` of s->hidden, which becomes the first one, as a drafted row reads it. */
static sac_status end_row(const sac_eagle_run *r, int64_t row) {
    sac_eagle_state *s = r->s;
    const sac_eagle *e = s->head;
    const int64_t cols = e->config.layer.hidden;
    memmove(s->hidden, s->hidden + row * cols, (size_t)cols * sizeof(float));
    const sac_block_rows one = block_rows(r, 1);
    SAC_TRY(sac_block_head(&one, e->norm, &e->head, rows_of(s->logits, 1, e->config.n_draft)));
    if (e->config.norm_output) memcpy(s->hidden, s->norm, (size_t)cols * sizeof(float));
    return SAC_OK;
}

/* ---------------------------------------------------------------- rows of the model */

/* g of n of its rows. */
static sac_status join(const sac_eagle_run *r, int64_t first, int64_t n) {
    const sac_eagle_state *s = r->s;
    const sac_eagle *e = s->head;
    const int64_t one = e->config.target_hidden, all = SAC_LAYER_ROWS * one;
    sac_mat x = rows_of(s->rows.rows + first * all, n, all);
    if (e->fc_norm) {
        const sac_mat y = rows_of(s->three, n, all);
        const int parts = e->config.fc_norm ? SAC_LAYER_ROWS : 1;
        for (int i = 0; i < parts; i++) {
            const int64_t at = i * one, cols = all / parts;
            SAC_TRY(norm_rows(r, (sac_mat){s->three + at, n, cols, all, SAC_DTYPE_F32},
                              (sac_mat){(float *)x.data + at, n, cols, all, SAC_DTYPE_F32}, e->fc_norm + at));
        }
        x = y;
    }
    return r->ops->linear(
        r->stream,
        &(sac_linear_args){.y = rows_of(s->hidden, n, e->config.layer.hidden), .x = x, .w = e->fc});
}

static sac_status follow(const sac_eagle_run *r, const int32_t *ids, int64_t past, int64_t *n_read) {
    sac_eagle_state *s = r->s;
    sac_layer_rows *kept = &s->rows;
    const int64_t at = kept->n_read, from = kept->first + at,
                  left = (past < kept->end ? past : kept->end) - from;
    *n_read = 0;
    if (left <= 0) return SAC_OK;
    const int64_t n = decoder_min(left, SAC_EAGLE_CHUNK);
    memcpy(s->ids, ids + from + 1, (size_t)n * sizeof *ids);
    SAC_TRY(join(r, from, n));
    SAC_TRY(run_rows(r, at, n));
    SAC_TRY(end_row(r, n - 1));
    kept->n_read += n;
    *n_read = n;
    return SAC_OK;
}

/* The stream with the head's own scratch. */
static sac_stream own_stream(const sac_eagle_run *r) {
    sac_stream stream = *r->stream;
    if (r->s->scratch) stream.shared_scratch = r->s->scratch, stream.shared_scratch_bytes = r->s->scratch_bytes;
    return stream;
}

sac_status sac_eagle_follow(const sac_eagle_run *r, const int32_t *ids, int64_t past, int64_t *n_read) {
    const sac_stream stream = own_stream(r);
    return follow(&(sac_eagle_run){r->s, r->embed, r->ops, &stream}, ids, past, n_read);
}

static int32_t likeliest(const sac_eagle_state *s) {
    int best = 0;
    for (int i = 1; i < s->head->config.n_draft; i++)
        if (s->logits[i] > s->logits[best]) best = i;
    return s->head->to_model[best];
}

static sac_status guess(const sac_eagle_run *r, const int32_t *ids, int64_t past, int most, int32_t *out, int *n) {
    sac_eagle_state *s = r->s;
    sac_layer_rows *kept = &s->rows;
    int64_t n_read;
    *n = 0;
    if (most > s->most) most = s->most;
    if (most < 1 || kept->end < past || kept->first >= past) return SAC_OK;
    if (kept->first + kept->n_read >= past)
        kept->n_read = past - 1 - kept->first; /* its row is gone from s->hidden */
    SAC_TRY(follow(r, ids, past, &n_read));
    if (kept->first + kept->n_read < past) return SAC_OK;
    for (int64_t at = kept->n_read; *n < most; at++) {
        s->ids[0] = out[*n] = likeliest(s);
        if (++*n == most) break;
        SAC_TRY(run_rows(r, at, 1));
        SAC_TRY(end_row(r, 0));
    }
    return SAC_OK;
}

sac_status sac_eagle_guess(const sac_eagle_run *r, const int32_t *ids, int64_t past, int most, int32_t *out,
                           int *n) {
    const sac_stream stream = own_stream(r);
    return guess(&(sac_eagle_run){r->s, r->embed, r->ops, &stream}, ids, past, most, out, n);
}
