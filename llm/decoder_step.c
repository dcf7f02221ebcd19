/* decoder_step.c - one more token: of one sequence, or one each of several together. */
#include "decoder_batch.h"
#include "decoder_run.h"

#include <assert.h>
#include <string.h>

static sac_status check_room(const sac_decoder_state *s, sac_error *err) {
    if (s->cache.n_rows >= s->n_ctx)
        return sac_fail(err, SAC_TOO_LONG, "the context of %lld tokens is full", (long long)s->n_ctx);
    if (!sac_decoder_turns_anew(s, s->cache.n_rows + 1)) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED,
                    "a step from %lld tokens on: LongRoPE turns all rows otherwise then, and they have to be run anew",
                    (long long)s->cache.n_rows);
}

static sac_status run_layers(const decoder_steps *t) {
    for (int layer = 0; layer < t->d->config.n_layers; layer++) SAC_TRY(sac_decoder_step_layer(t, layer));
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
    decoder_steps t = {.d = r->d, .states = &s, .n = 1, .rows_each = n + 1};
    t.rows = sac_decoder_rows(r, past, n + 1);
    SAC_TRY(run_layers(&t));
    s->last_row = past + n;
    s->cache.n_rows = past + 1;
    return sac_decoder_fetch_logits(r, s->last_row, s->logits);
}

sac_status sac_decoder_step(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                            const sac_stream *stream, int64_t past, int32_t id, sac_error *err) {
    decoder_run r = {d, s, ops, stream};
    assert(past == s->cache.n_rows && s->hidden);
    SAC_TRY(check_room(s, err));
    sac_status st = step(&r, past, id);
    if (st == SAC_OK) return st;
    sac_decoder_cut_back(s, past);
    return sac_decoder_explain(&r, st, err);
}

/* ---------------------------------------------------------------- of several, in rows of the batch */

/* What of a step is a sequence's own; x: the embedding of its token. */
static sac_status start(const decoder_run *r, sac_mat x, sac_error *err) {
    sac_decoder_state *s = r->s;
    const sac_decode_policy *decode = s->decode.policy;
    int64_t past = s->cache.n_rows, n = 0;
    SAC_TRY(check_room(s, err));
    SAC_TRY(sac_decoder_prepare_step_rotations(r, past));
    SAC_TRY(sac_linear_states_begin(&s->states, past, s->device, r->stream));
    if (decode->rebuild) /* plans the step; nothing is computed again */
        SAC_TRY(decode->rebuild(s->decode.state, r->ops, r->stream, sac_mat_rows(x, 0, 0),
                                s->positions + past, &n));
    assert(n == 0);
    SAC_TRY(sac_decoder_prepare_step_positions(r, past, 0));
    return decode->inputs ? decode->inputs(s->decode.state, r->ops, r->stream, x, past) : SAC_OK;
}

static sac_status embed(const decoder_steps *t, const sac_decoder_batch *b, const int32_t *ids) {
    const sac_block_rows *r = &t->rows;
    if (b->device) SAC_TRY(b->device->upload(r->stream, b->ids, ids, (size_t)t->n * sizeof *ids));
    return decoder_embed(t->d, r->ops, r->stream, r->hidden, b->device ? b->ids : ids);
}

static sac_status run_together(const decoder_steps *t, const sac_decoder_batch *b, const int32_t *ids,
                               sac_error *err) {
    const sac_block_rows *r = &t->rows;
    SAC_TRY(embed(t, b, ids));
    for (int64_t i = 0; i < t->n; i++) {
        decoder_run one = {t->d, t->states[i], r->ops, r->stream};
        SAC_TRY(start(&one, sac_mat_rows(r->hidden, i, 1), err));
    }
    SAC_TRY(run_layers(t));
    return sac_block_head(r, t->d->final_norm, &t->d->head, sac_mat_f32(b->logits, t->n, t->d->config.vocab));
}

static sac_status hand_out_logits(const decoder_steps *t, const sac_decoder_batch *b, sac_error *err) {
    size_t vocab = (size_t)t->d->config.vocab, n_bytes = vocab * sizeof(float);
    const sac_stream *stream = t->rows.stream;
    for (size_t i = 0; i < (size_t)t->n; i++)
        if (b->device)
            SAC_TRY(b->device->download(stream, t->states[i]->logits, b->logits + i * vocab, n_bytes));
        else
            memcpy(t->states[i]->logits, b->logits + i * vocab, n_bytes);
    if (b->device) SAC_TRY(b->device->stream_sync(stream, err));
    for (int64_t i = 0; i < t->n; i++) sac_decoder_end_logits(t->d, t->states[i]->logits, (int64_t)vocab);
    return SAC_OK;
}

sac_status sac_decoder_batch_step(const sac_decoder *d, sac_decoder_batch *b, const sac_ops *ops,
                                  const sac_stream *stream, sac_decoder_state *const *states,
                                  const int32_t *ids, int64_t n, sac_error *err) {
    decoder_steps t = {.d = d, .states = states, .n = n, .rows_each = 1};
    t.rows = sac_decoder_batch_rows(b, d, n);
    t.rows.ops = ops, t.rows.stream = stream;
    t.rows.fast = states[0]->fast;
    if (d->n_adapters) {
        for (int64_t i = 0; i < n; i++) b->adapters[i] = states[i]->adapter;
        t.rows.row_adapters = b->adapters;
    }
    sac_status st = run_together(&t, b, ids, err);
    if (st == SAC_OK) st = hand_out_logits(&t, b, err);
    if (st == SAC_OK) {
        for (int64_t i = 0; i < n; i++) states[i]->last_row = states[i]->cache.n_rows++;
        return SAC_OK;
    }
    st = sac_decoder_explain(&(decoder_run){.d = d, .s = states[0], .ops = ops, .stream = stream}, st, err);
    /* what is queued may still write rows of sessions that begin again on streams of their own */
    if (b->device) b->device->stream_sync(stream, NULL);
    for (int64_t i = 0; i < n; i++) sac_decoder_cut_back(states[i], states[i]->cache.n_rows);
    return st;
}
