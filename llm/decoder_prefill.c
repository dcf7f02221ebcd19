/* decoder_prefill.c - a prompt: layers outside, chunks of tokens inside. */
#include "decoder_run.h"

#include <assert.h>
#include <string.h>

/* Hidden rows from `first` on, n_kept of them: the next go where nothing is still wanted. */
static sac_status drop_on_device(const decoder_run *r, int64_t first, const int32_t *kept, int64_t n_kept) {
    const sac_decoder_state *s = r->s;
    int64_t hidden = r->d->config.hidden, n_rows = kept[n_kept - 1] + 1;
    for (int64_t i = 0; i < n_kept; i += s->chunk) {
        int64_t n = decoder_min(n_kept - i, s->chunk);
        sac_mat part = decoder_mat(r, s->norm, n, hidden), to = decoder_hidden_rows(r, first + i, n);
        SAC_TRY(decoder_upload(r, s->device_ids, kept + i, (size_t)n * sizeof *kept));
        SAC_TRY(r->ops->gather_rows(
            r->stream,
            &(sac_gather_rows_args){part, decoder_hidden_rows(r, first, n_rows), s->device_ids, NULL}));
        SAC_TRY(s->device->copy(r->stream, to.data, part.data,
                                (size_t)n * sac_dtype_row_bytes(s->dtype, hidden)));
    }
    return sac_decoder_upload_positions(r, first, n_kept);
}

/* Hidden rows and positions of [first, first + *n) without those that the prefill method drops here. */
static sac_status drop_tokens(const decoder_run *r, const sac_layer_attention *a, int64_t first, int64_t *n) {
    sac_decoder_state *s = r->s;
    int64_t n_kept;
    size_t row = sac_dtype_row_bytes(s->dtype, r->d->config.hidden);
    uint8_t *rows = (uint8_t *)s->hidden + (size_t)first * row;
    const int32_t *kept = s->prefill.policy->keep(s->prefill.state, a, &n_kept);
    if (!kept) return SAC_OK;
    for (int64_t i = 0; i < n_kept; i++) { /* rows only move up, to where nothing is still wanted */
        if (kept[i] == i) continue;
        if (!s->device) memcpy(rows + (size_t)i * row, rows + (size_t)kept[i] * row, row);
        s->positions[first + i] = s->positions[first + kept[i]];
    }
    *n = n_kept;
    return s->device ? drop_on_device(r, first, kept, n_kept) : SAC_OK;
}

/* A layer's hidden rows from `first` on, by which their queries are made. */
typedef struct layer_rows {
    const decoder_run *r;
    int layer;
    int64_t first, n;
} layer_rows;

/* Rows at a time, so that n fall into equal parts: a few left over would be slow. */
static int64_t even_part(int64_t n, int64_t most) {
    int64_t n_parts = (n + most - 1) / most;
    return n_parts ? (n + n_parts - 1) / n_parts : 1;
}

/* Hidden rows and positions of the listed tokens, side by side; positions are moved as rows of one number. */
static sac_status pick_rows(const layer_rows *l, const int32_t *rows, sac_mat x) {
    const sac_decoder_state *s = l->r->s;
    sac_mat all = {s->device_positions + l->first, l->n, 1, 1, SAC_DTYPE_F32};
    sac_mat picked = {s->picked_positions, x.rows, 1, 1, SAC_DTYPE_F32};
    SAC_TRY(l->r->ops->gather_rows(
        l->r->stream, &(sac_gather_rows_args){x, decoder_hidden_rows(l->r, l->first, l->n), rows, NULL}));
    return l->r->ops->gather_rows(l->r->stream, &(sac_gather_rows_args){picked, all, rows, NULL});
}

/* Queries [first, first + q.rows) of those that are asked for. */
static sac_status make_some(const layer_rows *l, sac_mat q, const int32_t *rows, int64_t first) {
    const decoder_run *r = l->r;
    sac_block_rows x = sac_decoder_rows(r, l->first + (rows ? 0 : first), q.rows);
    sac_rotation rotation = decoder_rotation(r->s);
    x.q = q;
    if (rows) {
        SAC_TRY(pick_rows(l, rows + first, x.norm));
        x.hidden = x.norm;
    }
    return sac_block_queries(&x, &r->d->layers[l->layer], &rotation,
                             rows ? r->s->picked_positions : r->s->device_positions + l->first + first);
}

static sac_status make_queries(void *ctx, sac_mat q, const int32_t *rows) {
    const layer_rows *l = ctx;
    int64_t most = l->r->s->chunk, part = rows ? even_part(q.rows, most) : most;
    for (int64_t i = 0; i < q.rows; i += part) {
        int64_t n = decoder_min(q.rows - i, part);
        SAC_TRY(make_some(l, sac_mat_rows(q, i, n), rows, i));
    }
    return SAC_OK;
}

static void pause_for_others(const sac_decoder_state *s) {
    if (s->pause.fn) s->pause.fn(s->pause.ctx);
}

/* Whether a layer's prefill picks queries: outputs may then be those of some tokens. A bias of o would be the
 * others'. */
static bool picks_queries(const decoder_run *r, int layer, int64_t n, int64_t n_seen) {
    const sac_prefill *p = &r->s->prefill;
    return p->policy->picks_queries && p->policy->picks_queries(p->p) && n > 1 &&
           !sac_prefill_is_short(p, n_seen) && !r->d->layers[layer].o_bias;
}

/* The outputs of some tokens into their hidden states. */
static sac_status add_attended(const layer_rows *l, const sac_attended *some) {
    const decoder_run *r = l->r;
    int64_t part = even_part(some->o.rows, r->s->chunk);
    for (int64_t i = 0; i < some->o.rows; i += part) {
        int64_t n = decoder_min(some->o.rows - i, part);
        sac_block_rows x = sac_decoder_rows(r, l->first, n);
        sac_mat h = decoder_hidden_rows(r, l->first, l->n);
        pause_for_others(r->s);
        x.q = sac_mat_rows(some->o, i, n);
        SAC_TRY(sac_block_attended(&x, &r->d->layers[l->layer]));
        SAC_TRY(r->ops->scatter_rows(r->stream, &(sac_scatter_rows_args){h, x.norm, some->rows + i, true}));
    }
    return SAC_OK;
}

/* Outputs of the last n_out rows are wanted. */
static sac_status prefill_layer(const decoder_run *r, int layer, int64_t first, int64_t *n, int64_t n_seen,
                                int64_t n_out) {
    sac_decoder_state *s = r->s;
    const sac_decode_policy *decode = s->decode.policy;
    const sac_decoder_layer *w = &r->d->layers[layer];
    int64_t past, end = first + *n;
    layer_rows rows = {r, layer, first, *n};
    sac_attended some = {0};
    bool picks = picks_queries(r, layer, *n, n_seen);
    bool q_later = picks && (!decode->prompt || decode->prompt_without_queries);
    sac_kv_view kv = sac_kv_cache_begin_layer(&s->cache, layer, *n, false, &past);
    for (int64_t i = first; i < end; i += s->chunk) {
        if (i > first) pause_for_others(s);
        int64_t n_rows = decoder_min(end - i, s->chunk);
        sac_block_rows x = sac_decoder_rows(r, i, n_rows);
        sac_block_part part = {n_rows, decoder_rotation(s), s->device_positions + i, kv, past + i - first};
        SAC_TRY(q_later ? sac_block_in_without_queries(&x, w, &part) : sac_block_in(&x, w, &part, 1));
    }
    sac_layer_attention a = sac_decoder_layer_attention(r, layer, first, *n, kv, past, n_seen);
    a.n_unread = *n - decoder_min(*n, n_out);
    if (picks) a.attended = &some;
    if (q_later) a.make_queries = (sac_query_maker){make_queries, &rows};
    sac_window_sums_begin(&s->window_sums);
    if (decode->prompt) SAC_TRY(decode->prompt(s->decode.state, &a));
    SAC_TRY(sac_prefill_attend(&s->prefill, &a));
    sac_important important = sac_prefill_important(&s->prefill);
    int64_t left = past + *n;
    if (decode->settle) SAC_TRY(decode->settle(s->decode.state, &a, &left));
    SAC_TRY(sac_kv_cache_end_layer(&s->cache, &a, left, &important));
    if (some.rows) SAC_TRY(add_attended(&rows, &some));
    for (int64_t i = first + a.n_unread; i < end; i += s->chunk) {
        int64_t n_rows = decoder_min(end - i, s->chunk);
        pause_for_others(s);
        sac_block_rows x = sac_decoder_rows(r, i, n_rows);
        SAC_TRY(some.rows ? sac_block_mlp(&x, w) : sac_block_out(&x, w));
    }
    return s->prefill.policy->keep ? drop_tokens(r, &a, first, n) : SAC_OK;
}

static sac_status prefill(const decoder_run *r, int64_t past, int64_t n, int64_t n_out, sac_layer_fn on_layer,
                          void *ctx) {
    sac_decoder_state *s = r->s;
    const sac_decode_policy *decode = s->decode.policy;
    int64_t end = past + n;
    SAC_TRY(sac_decoder_prepare_rotations(r, past, end));
    for (int64_t i = past; i < end; i++) s->positions[i] = (int32_t)i;
    s->n_positions = 0;
    SAC_TRY(sac_decoder_upload_positions(r, past, n));
    if (decode->inputs)
        SAC_TRY(decode->inputs(s->decode.state, r->ops, r->stream, decoder_hidden_rows(r, past, n), past));
    for (int layer = 0; layer < s->shape.n_layers; layer++) {
        if (on_layer) SAC_TRY(on_layer(ctx, layer, s->shape.n_layers));
        SAC_TRY(sac_stream_use(r->stream)); /* which may have run others' work */
        SAC_TRY(prefill_layer(r, layer, past, &n, end, layer + 1 < s->shape.n_layers ? n : n_out));
    }
    if (on_layer) SAC_TRY(on_layer(ctx, s->shape.n_layers, s->shape.n_layers));
    s->last_row = past + n - 1;
    s->cache.n_rows = end;
    return SAC_OK;
}

sac_status sac_decoder_prefill(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                               const sac_stream *stream, int64_t past, int64_t n, int64_t n_out,
                               sac_layer_fn on_layer, void *ctx, sac_error *err) {
    assert(past >= 0 && n > 0 && n_out > 0 && past == s->cache.n_rows);
    if (n > s->n_ctx - past)
        return sac_fail(
            err, SAC_TOO_LONG,
            "%lld tokens after %lld do not fit a context of %lld: ask with fewer frames or a larger --ctx",
            (long long)n, (long long)past, (long long)s->n_ctx);
    if (past > 0 && s->device && sac_kv_cache_is_packed(&s->cache))
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "KV format %s takes one prompt on a device: no more tokens at a time than one after it, "
            "or a session begun anew",
            s->cache.choice.format->name);
    decoder_run r = {d, s, ops, stream};
    sac_status st = prefill(&r, past, n, n_out, on_layer, ctx);
    if (st == SAC_OK) return st;
    sac_decoder_cut_back(s, past);
    return sac_decoder_explain(&r, st, err);
}
