/* decoder_prefill.c - a prompt: layers outside, chunks of tokens inside, a piece at a time. */
#include "decoder_deep.h"
#include "decoder_pick.h"

#include <assert.h>
#include <math.h>

/* ---------------------------------------------------------------- how much of it a piece is */

/* Channels of its MLP that a row meets. */
static double mlp_channels(const sac_decoder_config *c, int layer) {
    if (!sac_decoder_is_sparse(c, layer)) return c->intermediate;
    return (double)c->experts.n_used * c->experts.intermediate + c->experts.shared;
}

/* Multiply-adds of a row of a linear stage. */
static double row_cost(const sac_prefill_work *w) {
    const sac_decoder_config *c = &w->d->config;
    double hidden = c->hidden, q = (double)decoder_q_cols(c), kv = (double)decoder_kv_cols(c);
    if (w->stage != SAC_PREFILL_IN) return hidden * (q + 3.0 * mlp_channels(c, w->layer));
    if (sac_decoder_is_linear(c, w->layer))
        return sac_linear_attention_cost(&c->linear, c->hidden) + 3 * hidden * mlp_channels(c, w->layer);
    return hidden * ((c->gated_attention ? 2 : 1) * q + 2 * kv);
}

/* On a device a piece is queued, and its time is not known: chunks stay whole there, and attention is cut to pieces of about
 * half of a chunk's work. */
static bool may_cut(const sac_prefill_work *w) {
    return w->most > 0 && !w->s->device;
}

/* Rows at a time. Chunks of a model with linear attention stay as they are: states are saved between them. */
static int64_t most_rows(const sac_prefill_work *w) {
    const int64_t chunk = w->s->chunk, least = SAC_PREFILL_LEAST_ROWS, step = 16;
    if (!may_cut(w) || w->s->states.n_layers || chunk <= least || w->most >= (double)chunk * row_cost(w)) return chunk;
    const int64_t n = (int64_t)(w->most / row_cost(w)) / step * step;
    return n < least ? least : n;
}

/* No prompt ends in a chunk of few rows, as these have other bits than many (sac_decoder_whole_rows). */
static int64_t chunk_rows(const sac_prefill_work *w) {
    const int64_t few = SAC_LINEAR_FEW_ROWS, chunk = most_rows(w), left = w->n - w->at;
    if (left <= chunk) return left;
    return chunk > 2 * few && left - chunk <= few ? chunk - few : chunk;
}

/* Of n queries that follow w->at others of the prompt; each meets the keys before it. */
static double attend_cost(const sac_prefill_work *w, int64_t n) {
    const double before = (double)(w->n_seen - w->n + w->at), rows = (double)n;
    return rows * (before + rows / 2) * (double)decoder_q_cols(&w->d->config) * 2;
}

/* Queries at a time: the larger root of attend_cost(n) = most; on a device whole steps of it, and no few at the end, which would go to
 * other kernels and have other bits. */
static int64_t attend_rows(const sac_prefill_work *w) {
    const bool queued = w->s->device;
    const int64_t left = w->n - w->at, least = queued ? SAC_PREFILL_DEVICE_ROWS : SAC_PREFILL_LEAST_ROWS;
    const double before = (double)(w->n_seen - w->n + w->at), most = queued ? (double)w->s->chunk * row_cost(w) / 2 : w->most;
    if (!w->by_rows || w->most <= 0 || most >= attend_cost(w, left)) return left;
    const double pairs = most / ((double)decoder_q_cols(&w->d->config) * 2);
    int64_t n = (int64_t)(sqrt(before * before + 2 * pairs) - before);
    if (queued) n -= n % least;
    if (n < least) n = least;
    return queued && left - n < least ? left : decoder_min(n, left);
}

/* The last border between chunks with as many rows behind it as a chunk has, in which prompts that begin alike mostly
 * differ; 0: there is none. */
static int64_t border_to_save(const sac_prefill_work *w) {
    sac_prefill_work copy = *w;
    int64_t border = 0;
    for (copy.at = 0; copy.n - copy.at >= copy.s->chunk; copy.at += chunk_rows(&copy)) border = copy.at;
    return border;
}

/* ---------------------------------------------------------------- the pieces of a layer */

/* Rows whose outputs nobody reads: in the last layer all but the last n_out. */
static int64_t n_unread(const sac_prefill_work *w) {
    return w->layer + 1 < w->d->config.n_layers ? 0 : w->n - decoder_min(w->n, w->n_out);
}

static sac_status begin_layer(sac_prefill_work *w, const decoder_run *r) {
    const sac_decode_policy *decode = w->s->decode.policy;
    const int number = sac_decoder_attending(&w->d->config, w->layer);
    SAC_TRY(sac_kv_cache_begin_layer(&w->s->cache, r->ops, r->stream, number, w->n, &w->kv, &w->kv_past));
    w->picks = sac_decoder_picks_queries(w);
    w->makes_no_queries = w->picks && (!decode->prompt || decode->prompt_without_queries) && !w->s->drafting.policy;
    w->some = (sac_attended){0};
    w->by_rows = !w->picks && !n_unread(w) && sac_prefill_goes_by_rows(&w->s->prefill, w->n_seen);
    return SAC_OK;
}

static void go_to(sac_prefill_work *w, sac_prefill_stage stage, int64_t at) {
    w->stage = stage;
    w->at = at;
}

static sac_status end_layer(sac_prefill_work *w) {
    const bool attends = !sac_decoder_is_linear(&w->d->config, w->layer);
    if (w->s->prefill.policy->keep && attends) SAC_TRY(sac_decoder_drop_tokens(w));
    go_to(w, SAC_PREFILL_IN, 0);
    if (++w->layer < w->d->config.n_layers) return SAC_OK;
    w->s->last_row = w->past + w->n - 1;
    w->s->cache.n_rows = w->n_seen;
    if (w->save_at) w->s->states.saved_rows = w->past + w->save_at;
    go_to(w, SAC_PREFILL_DONE, 0);
    return SAC_OK;
}

/* All of a layer whose attention is linear, chunk after chunk: nothing of it waits for later rows. */
static sac_status chunk_linear(sac_prefill_work *w) {
    const decoder_run r = decoder_run_of(w);
    const sac_decoder_layer *layer = &w->d->layers[w->layer];
    const int number = w->layer - sac_decoder_attending(&w->d->config, w->layer);
    const sac_linear_part part = {chunk_rows(w), &w->s->states};
    const sac_block_rows x = sac_decoder_rows(&r, w->past + w->at, part.n);
    SAC_TRY(sac_block_linear_in(&x, layer));
    SAC_TRY(sac_block_linear_recur(&x, layer, number, 0, &part, 1));
    SAC_TRY(sac_block_linear_out(&x, layer));
    SAC_TRY(sac_decoder_add_deep(w, w->past + w->at, part.n));
    w->at += part.n;
    if (w->at == w->save_at) SAC_TRY(sac_linear_states_save(part.states, number, w->s->device, w->stream));
    return w->at == w->n ? end_layer(w) : SAC_OK;
}

static sac_status chunk_in(sac_prefill_work *w) {
    if (sac_decoder_is_linear(&w->d->config, w->layer)) return chunk_linear(w);
    const decoder_run r = decoder_run_of(w);
    const sac_decoder_layer *layer = &w->d->layers[w->layer];
    if (w->at == 0) SAC_TRY(begin_layer(w, &r));
    int64_t n = chunk_rows(w);
    sac_block_rows x = sac_decoder_rows(&r, w->past + w->at, n);
    decoder_show_rows(w->s, w->layer, w->past + w->at, x.hidden);
    sac_block_part part = {.n = n,
                           .rotation = decoder_rotation(&r, w->layer),
                           .pos = w->s->device_positions + w->past + w->at,
                           .kv = w->kv,
                           .first = w->kv_past + w->at};
    SAC_TRY(w->makes_no_queries ? sac_block_in_without_queries(&x, layer, &part)
                                : sac_block_in(&x, layer, &part, 1));
    w->at += n;
    if (w->at == w->n) go_to(w, SAC_PREFILL_ATTEND, 0);
    return SAC_OK;
}

static sac_status begin_attend(sac_prefill_work *w) {
    const decoder_run r = decoder_run_of(w);
    sac_decoder_state *s = w->s;
    const sac_decode_policy *decode = s->decode.policy;
    sac_layer_attention *a = &w->attention;
    sac_mat q = decoder_query_rows(&r, w->past, w->n);
    *a = sac_decoder_layer_attention(&r, w->layer, w->past, q, w->kv, w->kv_past, w->n_seen);
    a->n_unread = n_unread(w);
    if (w->picks) a->attended = &w->some;
    if (w->makes_no_queries) a->make_queries = (sac_query_maker){sac_decoder_make_queries, w};
    sac_window_sums_begin(&s->window_sums);
    const sac_decode_policy *drafting = s->drafting.policy;
    if (drafting && drafting->prompt) SAC_TRY(drafting->prompt(s->drafting.state, a));
    return decode->prompt ? decode->prompt(s->decode.state, a) : SAC_OK;
}

static sac_status end_attend(sac_prefill_work *w) {
    sac_decoder_state *s = w->s;
    const sac_decode_policy *decode = s->decode.policy;
    const sac_layer_attention *a = &w->attention;
    int64_t left = w->kv_past + w->n;
    sac_important important = sac_prefill_important(&s->prefill);
    if (decode->settle) SAC_TRY(decode->settle(s->decode.state, a, &left));
    SAC_TRY(sac_kv_cache_end_layer(&s->cache, a, left, &important));
    if (w->some.rows && w->some.o.rows > 0)
        go_to(w, SAC_PREFILL_ADD, 0);
    else
        go_to(w, SAC_PREFILL_OUT, a->n_unread);
    return SAC_OK;
}

static sac_status attend(sac_prefill_work *w) {
    if (w->at == 0) SAC_TRY(begin_attend(w));
    if (!w->by_rows) {
        SAC_TRY(sac_prefill_attend(&w->s->prefill, &w->attention));
        return end_attend(w);
    }
    const int64_t n = attend_rows(w);
    SAC_TRY(sac_prefill_attend_rows(&w->s->prefill, &w->attention, w->at, n));
    w->at += n;
    return w->at == w->n ? end_attend(w) : SAC_OK;
}

static sac_status add(sac_prefill_work *w) {
    int64_t n = sac_decoder_attended_part(w);
    SAC_TRY(sac_decoder_add_attended(w, n));
    w->at += n;
    if (w->at == w->some.o.rows) go_to(w, SAC_PREFILL_OUT, w->attention.n_unread);
    return SAC_OK;
}

static sac_status chunk_out(sac_prefill_work *w) {
    const decoder_run r = decoder_run_of(w);
    const sac_decoder_layer *layer = &w->d->layers[w->layer];
    int64_t n = chunk_rows(w);
    sac_block_rows x = sac_decoder_rows(&r, w->past + w->at, n);
    if (w->some.rows) {
        SAC_TRY(sac_block_mlp(&x, layer));
    } else {
        SAC_TRY(sac_block_convert(&x, decoder_query_rows(&r, w->past + w->at, n), x.q.dtype));
        SAC_TRY(sac_block_out(&x, layer));
    }
    SAC_TRY(sac_decoder_add_deep(w, w->past + w->at, n));
    w->at += n;
    return w->at == w->n ? end_layer(w) : SAC_OK;
}

/* ---------------------------------------------------------------- the work */

/* Says what went wrong, after nothing is left of the new tokens. */
static sac_status fail(sac_prefill_work *w, sac_status st, sac_error *err) {
    const decoder_run r = decoder_run_of(w);
    sac_prefill_work_drop(w);
    return sac_decoder_explain(&r, st, err);
}

static sac_status prepare(sac_prefill_work *w) {
    const decoder_run r = decoder_run_of(w);
    sac_decoder_state *s = w->s;
    const sac_decode_policy *decode = s->decode.policy;
    w->save_at = s->states.n_layers && !s->prefill.policy->keep ? border_to_save(w) : 0; /* all layers have the same chunks */
    SAC_TRY(sac_decoder_prepare_rotations(&r, w->past, w->n_seen));
    for (int64_t i = w->past; i < w->n_seen; i++) s->positions[i] = (int32_t)i;
    s->n_positions = 0;
    SAC_TRY(sac_decoder_upload_positions(&r, w->past, w->n));
    SAC_TRY(sac_linear_states_begin(&s->states, w->past, s->device, w->stream));
    if (w->save_at) s->states.saved_rows = 0; /* until all layers are saved */
    if (!decode->inputs) return SAC_OK;
    return decode->inputs(s->decode.state, w->ops, w->stream, decoder_hidden_rows(&r, w->past, w->n),
                          w->past);
}

static sac_status check(const sac_decoder_state *s, int64_t past, int64_t n, sac_error *err) {
    if (n > s->n_ctx - past)
        return sac_fail(
            err, SAC_TOO_LONG,
            "%lld tokens after %lld do not fit a context of %lld: ask with fewer frames or a larger --ctx",
            (long long)n, (long long)past, (long long)s->n_ctx);
    if (sac_decoder_turns_anew(s, past + n))
        return sac_fail(err, SAC_UNSUPPORTED,
                        "%lld tokens after %lld: LongRoPE turns all rows otherwise then, and they have to be run anew", (long long)n,
                        (long long)past);
    if (past > 0 && s->device && sac_kv_cache_is_packed(&s->cache))
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "KV format %s takes one prompt on a device: no more tokens at a time than one after it, "
            "or a session begun anew",
            s->cache.choice.format->name);
    return SAC_OK;
}

sac_status sac_prefill_work_begin(sac_prefill_work *w, const sac_decoder *d, sac_decoder_state *s,
                                  const sac_ops *ops, const sac_stream *stream, int64_t past, int64_t n,
                                  int64_t n_out, sac_error *err) {
    assert(past >= 0 && n > 0 && n_out > 0 && past == s->cache.n_rows && s->hidden);
    *w = (sac_prefill_work){.d = d,
                            .s = s,
                            .ops = ops,
                            .stream = stream,
                            .past = past,
                            .n = n,
                            .began = past,
                            .n_seen = past + n,
                            .n_out = n_out,
                            .stage = SAC_PREFILL_DONE};
    SAC_TRY(check(s, past, n, err));
    SAC_TRY(sac_kv_cache_take_room(&s->cache, past + n, err));
    go_to(w, SAC_PREFILL_IN, 0);
    sac_status st = prepare(w);
    return st == SAC_OK ? st : fail(w, st, err);
}

/* Other work may have run on another device since the piece before. */
static sac_status next(sac_prefill_work *w) {
    SAC_TRY(sac_stream_use(w->stream));
    switch (w->stage) {
    case SAC_PREFILL_IN: return chunk_in(w);
    case SAC_PREFILL_ATTEND: return attend(w);
    case SAC_PREFILL_ADD: return add(w);
    case SAC_PREFILL_OUT: return chunk_out(w);
    case SAC_PREFILL_DONE: break;
    }
    return SAC_OK;
}

sac_status sac_prefill_work_next(sac_prefill_work *w, sac_error *err) {
    sac_status st = next(w);
    return st == SAC_OK ? st : fail(w, st, err);
}

void sac_prefill_work_drop(sac_prefill_work *w) {
    if (sac_prefill_work_is_done(w)) return;
    go_to(w, SAC_PREFILL_DONE, 0);
    sac_decoder_cut_back(w->s, w->began);
}

double sac_prefill_work_cost(const sac_prefill_work *w) {
    const sac_decoder_config *c = &w->d->config;
    switch (w->stage) {
    case SAC_PREFILL_IN:
    case SAC_PREFILL_OUT: return (double)chunk_rows(w) * row_cost(w);
    case SAC_PREFILL_ATTEND: return attend_cost(w, attend_rows(w));
    case SAC_PREFILL_ADD: return (double)sac_decoder_attended_part(w) * c->hidden * (double)decoder_q_cols(c);
    case SAC_PREFILL_DONE: break;
    }
    return 0;
}

bool sac_prefill_work_is_typical(const sac_prefill_work *w) {
    switch (w->stage) {
    case SAC_PREFILL_IN:
    case SAC_PREFILL_OUT: return chunk_rows(w) >= SAC_PREFILL_LEAST_ROWS - SAC_LINEAR_FEW_ROWS;
    case SAC_PREFILL_ATTEND: return w->by_rows;
    case SAC_PREFILL_ADD:
    case SAC_PREFILL_DONE: break;
    }
    return false;
}

double sac_prefill_work_left(const sac_prefill_work *w) {
    const int n_layers = w->d->config.n_layers;
    return (double)w->n * (n_layers - w->layer) / n_layers;
}

/* ---------------------------------------------------------------- all of it */

static sac_status run(sac_prefill_work *w, sac_layer_fn on_layer, void *ctx, sac_error *err) {
    const int n_layers = w->d->config.n_layers;
    while (!sac_prefill_work_is_done(w)) {
        if (on_layer && sac_prefill_work_begins_layer(w)) SAC_TRY(on_layer(ctx, w->layer, n_layers));
        SAC_TRY(sac_prefill_work_next(w, err));
    }
    return on_layer ? on_layer(ctx, n_layers, n_layers) : SAC_OK;
}

sac_status sac_decoder_prefill(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                               const sac_stream *stream, int64_t past, int64_t n, int64_t n_out,
                               sac_layer_fn on_layer, void *ctx, sac_error *err) {
    sac_prefill_work w;
    SAC_TRY(sac_prefill_work_begin(&w, d, s, ops, stream, past, n, n_out, err));
    sac_status st = run(&w, on_layer, ctx, err);
    if (st != SAC_OK) sac_decoder_cut_back(s, past);
    return st;
}
