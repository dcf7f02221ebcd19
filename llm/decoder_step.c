/* decoder_step.c - one more token: of one sequence, or one each of several together. */
#include "decoder_pass.h"
#include "decoder_run.h"
#include "decoder_told.h"

#include <assert.h>
#include <string.h>

sac_status sac_decoder_check_room(const sac_decoder_state *s, sac_error *err) {
    if (s->cache.n_rows >= s->n_ctx)
        return sac_fail(err, SAC_TOO_LONG, "the context of %lld tokens is full", (long long)s->n_ctx);
    if (!sac_decoder_turns_anew(s, s->cache.n_rows + 1)) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED,
                    "a step from %lld tokens on: LongRoPE turns all rows otherwise then, and they have to be run anew",
                    (long long)s->cache.n_rows);
}

sac_status sac_decoder_make_room(sac_decoder_state *s, const sac_stream *stream, int64_t n, sac_error *err) {
    SAC_TRY(sac_decoder_check_room(s, err));
    return sac_kv_cache_make_room(&s->cache, stream, s->cache.n_rows + n, err);
}

static sac_status run_layers(const decoder_steps *t) {
    for (int layer = 0; layer < t->d->config.n_layers; layer++) {
        for (int64_t i = 0; i < t->n; i++)
            decoder_show_rows(t->states[i], layer, t->states[i]->cache.n_rows,
                              sac_mat_rows(t->rows.hidden, decoder_first_row(t, i + 1) - 1, 1));
        SAC_TRY(t->n_chunks ? sac_decoder_pass_layer(t, layer) : sac_decoder_step_layer(t, layer));
    }
    return SAC_OK;
}

/* ---------------------------------------------------------------- of one sequence, in its own rows */

/* Tokens that are computed again stand before the step's own. */
static sac_status step(const decoder_run *r, int64_t past, int32_t id) {
    sac_decoder_state *s = r->s;
    const sac_decode_policy *decode = s->decode.policy;
    int64_t n = 0;
    SAC_TRY(sac_stream_use(r->stream));
    SAC_TRY(sac_decoder_prepare_step_rotations(r, past));
    SAC_TRY(sac_linear_states_begin(&s->states, past, s->device, r->stream));
    if (decode->rebuild)
        SAC_TRY(decode->rebuild(s->decode.state, r->ops, r->stream, decoder_hidden_rows(r, past, s->n_spare),
                                s->positions + past, &n));
    sac_mat own = decoder_hidden_rows(r, past + n, 1);
    SAC_TRY(sac_decoder_prepare_step_positions(r, past, n));
    if (s->device) *s->step_id = id;
    SAC_TRY(decoder_embed(r->d, r->ops, r->stream, own, s->device ? s->step_id : &id));
    if (decode->inputs) SAC_TRY(decode->inputs(s->decode.state, r->ops, r->stream, own, past));
    decoder_steps t = {.d = r->d, .states = &s, .n = 1, .first = (int64_t[]){0, n + 1}};
    t.rows = sac_decoder_rows(r, past, n + 1);
    t.rows.steps = n > 0; /* their bits are the same beside others' in a batch */
    SAC_TRY(run_layers(&t));
    sac_kv_caches_grow_ahead(&(sac_kv_cache *){&s->cache}, 1, r->stream); /* the device is at the layers */
    s->last_row = past + n;
    s->cache.n_rows = past + 1;
    return sac_decoder_step_logits(r, s->last_row);
}

sac_status sac_decoder_step(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                            const sac_stream *stream, int64_t past, int32_t id, sac_error *err) {
    decoder_run r = {d, s, ops, stream};
    assert(past == s->cache.n_rows && s->hidden);
    SAC_TRY(sac_decoder_make_room(s, stream, 1 + s->n_spare, err));
    sac_status st = step(&r, past, id);
    if (st == SAC_OK) return st;
    sac_decoder_cut_back(s, past);
    return sac_decoder_explain(&r, st, err);
}

/* ---------------------------------------------------------------- of several, in rows of the batch */

static decoder_run run_of(const decoder_steps *t, int64_t i) {
    return (decoder_run){t->d, t->states[i], t->rows.ops, t->rows.stream};
}

/* Plans a sequence's step: embeddings of *n tokens that are computed again go to the rows of x. */
static sac_status plan(const decoder_run *r, sac_mat x, int64_t *n, sac_error *err) {
    sac_decoder_state *s = r->s;
    const sac_decode_policy *decode = s->decode.policy;
    int64_t past = s->cache.n_rows;
    *n = 0;
    SAC_TRY(sac_decoder_make_room(s, r->stream, 1 + s->n_spare, err));
    SAC_TRY(sac_decoder_prepare_step_rotations(r, past));
    SAC_TRY(sac_linear_states_begin(&s->states, past, s->device, r->stream));
    if (decode->rebuild)
        SAC_TRY(decode->rebuild(s->decode.state, r->ops, r->stream, sac_mat_rows(x, 0, s->n_spare),
                                s->positions + past, n));
    return sac_decoder_prepare_step_positions(r, past, *n);
}

static bool compute_again(sac_decoder_state *const *states, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (states[i]->n_spare > 0) return true;
    return false;
}

/* Plans all of them, one behind the other in the rows of the batch. Where tokens are computed again, says where the
 * rows of each begin. */
static sac_status plan_all(decoder_steps *t, const sac_decoder_batch *b, sac_error *err) {
    const bool again = compute_again(t->states, t->n);
    int64_t at = t->n_before;
    for (int64_t i = 0, n; i < t->n; i++, at += n + 1) {
        const decoder_run one = run_of(t, i);
        sac_mat room = t->rows.hidden;
        room.rows = t->n_before + b->capacity;
        SAC_TRY(plan(&one, sac_mat_rows(room, at, room.rows - at), &n, err));
        if (again) b->first[i] = at;
    }
    if (again) b->first[t->n] = at;
    t->first = again ? b->first : NULL;
    return SAC_OK;
}

/* Own rows lie side by side but where a sequence has more: as many at a time as there are. */
static sac_status embed(const decoder_steps *t, const sac_decoder_batch *b, const int32_t *ids) {
    const sac_block_rows *r = &t->rows;
    if (b->device) SAC_TRY(b->device->upload(r->stream, b->ids, ids, (size_t)t->n * sizeof *ids));
    const int32_t *from = b->device ? b->ids : ids;
    for (int64_t i = 0, n; i < t->n; i += n) {
        const int64_t own = decoder_first_row(t, i + 1) - 1;
        for (n = 1; i + n < t->n && decoder_first_row(t, i + n + 1) - 1 == own + n;) n++;
        SAC_TRY(decoder_embed(t->d, r->ops, r->stream, sac_mat_rows(r->hidden, own, n), from + i));
    }
    return SAC_OK;
}

/* The methods see the embeddings of the own tokens. */
static sac_status show_inputs(const decoder_steps *t) {
    for (int64_t i = 0; i < t->n; i++) {
        sac_decoder_state *s = t->states[i];
        const sac_decode_policy *decode = s->decode.policy;
        if (!decode->inputs) continue;
        SAC_TRY(decode->inputs(s->decode.state, t->rows.ops, t->rows.stream,
                               sac_mat_rows(t->rows.hidden, decoder_first_row(t, i + 1) - 1, 1), s->cache.n_rows));
    }
    return SAC_OK;
}

/* Logits of the own rows: the others' are nobody's. */
static sac_status find_logits(const decoder_steps *t, const sac_decoder_batch *b) {
    sac_block_rows r = t->n_before ? sac_block_rows_from(&t->rows, t->n_before, t->rows.hidden.rows - t->n_before) : t->rows;
    const sac_mat logits = sac_mat_f32(b->logits, t->n, t->d->config.vocab);
    if (t->first) {
        for (int64_t i = 0; i < t->n; i++) b->own[i] = (int32_t)(t->first[i + 1] - 1 - t->n_before);
        if (b->device) SAC_TRY(b->device->upload(r.stream, b->ids, b->own, (size_t)t->n * sizeof *b->own));
        const sac_mat own = sac_mat_rows(r.norm, 0, t->n), scratch = sac_mat_rows(r.hidden, 0, t->n);
        SAC_TRY(r.ops->gather_rows(
            r.stream, &(sac_gather_rows_args){.y = own, .x = r.hidden, .source = b->device ? b->ids : b->own}));
        r.hidden = own, r.norm = scratch;
    }
    return sac_block_head(&r, t->d->final_norm, &t->d->head, logits);
}

static sac_status run_together(decoder_steps *t, const sac_decoder_batch *b, const int32_t *ids, sac_error *err) {
    SAC_TRY(plan_all(t, b, err));
    const sac_block_rows rows = t->rows;
    t->rows = sac_decoder_batch_rows(b, t->d, decoder_first_row(t, t->n));
    t->rows.ops = rows.ops, t->rows.stream = rows.stream, t->rows.fast = rows.fast;
    t->rows.n_prompt = t->n_before;
    if (t->d->n_adapters) {
        for (int64_t i = 0; i < t->n; i++)
            for (int64_t row = decoder_first_row(t, i); row < decoder_first_row(t, i + 1); row++)
                b->adapters[row] = t->states[i]->adapter;
        t->rows.row_adapters = b->adapters;
    }
    SAC_TRY(embed(t, b, ids));
    SAC_TRY(show_inputs(t));
    SAC_TRY(sac_decoder_pass_begin(t));
    SAC_TRY(run_layers(t));
    return find_logits(t, b);
}

static sac_status hand_out_logits(const decoder_steps *t, const sac_decoder_batch *b, sac_error *err) {
    return sac_decoder_hand_out(&(decoder_told_rows){.d = t->d,
                                                     .ops = t->rows.ops,
                                                     .stream = t->rows.stream,
                                                     .states = t->states,
                                                     .n = t->n,
                                                     .logits = b->logits,
                                                     .room = b->told_room.n_rows ? &b->told_room : NULL},
                                err);
}

static void grow_ahead(const decoder_steps *t) {
    enum { TOGETHER = 256 };
    sac_kv_cache *caches[TOGETHER];
    for (int64_t i = 0, m; i < t->n; i += m) {
        for (m = 0; m < TOGETHER && i + m < t->n; m++) caches[m] = &t->states[i + m]->cache;
        sac_kv_caches_grow_ahead(caches, m, t->rows.stream);
    }
}

static sac_status fail_all(const decoder_steps *t, const sac_decoder_batch *b, sac_status st, sac_error *err) {
    const decoder_run first = {.d = t->d, .s = t->states[0], .ops = t->rows.ops, .stream = t->rows.stream};
    st = sac_decoder_explain(&first, st, err);
    /* what is queued may still write rows of sessions that begin again on streams of their own */
    if (b->device) b->device->stream_sync(t->rows.stream, NULL);
    for (int64_t i = 0; i < t->n; i++) sac_decoder_cut_back(t->states[i], t->states[i]->cache.n_rows);
    for (int64_t i = 0; i < t->n_chunks; i++) sac_prefill_work_drop(t->chunks[i].work);
    return st;
}

sac_status sac_decoder_pass(const sac_decoder *d, sac_decoder_batch *b, const sac_ops *ops, const sac_stream *stream,
                            sac_decoder_state *const *states, const int32_t *ids, int64_t n, const sac_pass_chunk *chunks,
                            int64_t n_chunks, sac_error *err) {
    decoder_steps t = {.d = d, .states = states, .n = n, .chunks = chunks, .n_chunks = n_chunks};
    for (int64_t i = 0; i < n_chunks; i++) t.n_before += chunks[i].n;
    assert(n >= 1 && n_chunks <= SAC_PASS_CHUNKS && t.n_before <= b->n_prompt);
    t.rows = sac_decoder_batch_rows(b, d, t.n_before + n);
    t.rows.ops = ops, t.rows.stream = stream;
    t.rows.fast = states[0]->fast;
    sac_status st = run_together(&t, b, ids, err);
    if (st == SAC_OK) grow_ahead(&t); /* the device is at the layers */
    if (st == SAC_OK) st = hand_out_logits(&t, b, err);
    if (st != SAC_OK) return fail_all(&t, b, st, err);
    for (int64_t i = 0; i < n; i++) states[i]->last_row = states[i]->cache.n_rows++;
    sac_decoder_pass_end(&t);
    return SAC_OK;
}

sac_status sac_decoder_batch_step(const sac_decoder *d, sac_decoder_batch *b, const sac_ops *ops,
                                  const sac_stream *stream, sac_decoder_state *const *states,
                                  const int32_t *ids, int64_t n, sac_error *err) {
    return sac_decoder_pass(d, b, ops, stream, states, ids, n, NULL, 0, err);
}
