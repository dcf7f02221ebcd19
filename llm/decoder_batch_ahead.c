/* decoder_batch_ahead.c - several sequences in one pass, some with drafted rows behind their own: linear layers run once over the
 * rows of all, attention is each row's own, as in decoder_ahead.c. Those that do not draft have one row each, and their step's own
 * attention, through whatever method or format. */
#include "decoder_ahead_run.h"
#include "decoder_batch.h"

#include <assert.h>
#include <string.h>

enum { TOGETHER = 32 }; /* sequences whose parts lie on the stack */

static decoder_run run_of(const decoder_steps *t, int64_t i) {
    return (decoder_run){t->d, t->states[i], t->rows.ops, t->rows.stream};
}

static int64_t rows_of(const decoder_steps *t, int64_t i) {
    return t->first[i + 1] - t->first[i];
}

bool sac_decoder_may_go_along(const sac_decoder_state *s) {
    return !s->device && (s->n_ahead || (!s->n_spare && !s->decode.policy->rebuild && !s->states.n_layers));
}

/* Where keys and values of sequence i go; *a is of one that does not draft. */
static sac_block_part open_part(const decoder_steps *t, int layer, int64_t i, sac_layer_attention *a) {
    const decoder_run r = run_of(t, i);
    sac_block_part part;
    decoder_show_rows(r.s, layer, r.s->cache.n_rows, sac_mat_rows(t->rows.hidden, t->first[i], rows_of(t, i)));
    if (r.s->n_ahead) return sac_decoder_part_ahead(&r, layer, rows_of(t, i));
    *a = sac_decoder_step_open(t, layer, i, &part);
    return part;
}

static sac_status attend(const decoder_steps *t, int layer, int64_t i, const sac_block_part *part, const sac_layer_attention *a) {
    const decoder_run r = run_of(t, i);
    if (r.s->n_ahead) return sac_decoder_attend_ahead(&r, &t->rows, layer, part, sac_mat_rows(t->rows.q, t->first[i], part->n));
    SAC_TRY(sac_decoder_step_attend_one(&r, a));
    return sac_block_convert(&t->rows, a->q, t->rows.q.dtype);
}

static sac_status run_layer(const decoder_steps *t, int layer) {
    const sac_decoder_layer *w = &t->d->layers[layer];
    for (int64_t at = 0, n; at < t->n; at += n) {
        sac_block_part parts[TOGETHER];
        sac_layer_attention a[TOGETHER];
        n = decoder_min(t->n - at, TOGETHER);
        for (int64_t i = 0; i < n; i++) parts[i] = open_part(t, layer, at + i, &a[i]);
        SAC_TRY(at ? sac_block_store(&t->rows, t->first[at], parts, (int)n) : sac_block_in(&t->rows, w, parts, (int)n));
        for (int64_t i = 0; i < n; i++) SAC_TRY(attend(t, layer, at + i, &parts[i], &a[i]));
    }
    return sac_block_out(&t->rows, w);
}

/* Its tables. */
static sac_status prepare(const decoder_run *r, int64_t n) {
    const int64_t past = r->s->cache.n_rows;
    if (r->s->n_ahead) return sac_decoder_prepare_ahead(r, past, n);
    SAC_TRY(sac_decoder_prepare_step_rotations(r, past));
    return sac_decoder_prepare_step_positions(r, past, 0);
}

/* A method that sees the embeddings of tokens. */
static sac_status show_input(const decoder_steps *t, int64_t i) {
    const sac_decoder_state *s = t->states[i];
    if (s->n_ahead || !s->decode.policy->inputs) return SAC_OK;
    return s->decode.policy->inputs(s->decode.state, t->rows.ops, t->rows.stream, sac_mat_rows(t->rows.hidden, t->first[i], 1),
                                    s->cache.n_rows);
}

static sac_status run(const decoder_steps *t, const sac_decoder_batch *b, const int32_t *ids) {
    const sac_block_rows *rows = &t->rows;
    const int64_t n_rows = t->first[t->n];
    for (int64_t i = 0; i < t->n; i++) {
        const decoder_run r = run_of(t, i);
        SAC_TRY(prepare(&r, rows_of(t, i)));
        for (int64_t row = t->first[i]; t->d->n_adapters && row < t->first[i + 1]; row++) b->adapters[row] = r.s->adapter;
    }
    SAC_TRY(decoder_embed(t->d, rows->ops, rows->stream, rows->hidden, ids));
    for (int64_t i = 0; i < t->n; i++) SAC_TRY(show_input(t, i));
    for (int layer = 0; layer < t->d->config.n_layers; layer++) SAC_TRY(run_layer(t, layer));
    SAC_TRY(sac_block_head(rows, t->d->final_norm, &t->d->head, sac_mat_f32(b->logits, n_rows, t->d->config.vocab)));
    sac_decoder_end_logits(t->d, b->logits, n_rows * t->d->config.vocab);
    return SAC_OK;
}

static sac_status make_room(const decoder_steps *t, sac_error *err) {
    for (int64_t i = 0; i < t->n; i++) {
        sac_decoder_state *s = t->states[i];
        assert(sac_decoder_may_go_along(s) && rows_of(t, i) >= 1 && rows_of(t, i) <= s->n_ahead + 1 && !s->device && !s->states.n_layers);
        if (!s->n_ahead) SAC_TRY(sac_decoder_check_room(s, err));
        if (rows_of(t, i) > s->n_ctx - s->cache.n_rows)
            return sac_fail(err, SAC_TOO_LONG, "the context of %lld tokens is full", (long long)s->n_ctx);
        SAC_TRY(sac_kv_cache_make_room(&s->cache, t->rows.stream, s->cache.n_rows + rows_of(t, i), err));
    }
    return SAC_OK;
}

sac_status sac_decoder_batch_step_ahead(const sac_decoder *d, sac_decoder_batch *b, const sac_ops *ops, const sac_stream *stream,
                                        sac_decoder_state *const *states, const int64_t *first, const int32_t *ids, int64_t n,
                                        sac_error *err) {
    decoder_steps t = {.d = d, .states = states, .n = n, .first = first};
    const size_t vocab = (size_t)d->config.vocab;
    assert(first[n] <= b->capacity);
    t.rows = sac_decoder_batch_rows(b, d, first[n]);
    t.rows.ops = ops, t.rows.stream = stream;
    t.rows.fast = states[0]->fast;
    if (d->n_adapters) t.rows.row_adapters = b->adapters;
    sac_status st = make_room(&t, err);
    if (st != SAC_OK) return st;
    st = run(&t, b, ids);
    if (st != SAC_OK) {
        st = sac_decoder_explain(&(decoder_run){.d = d, .s = states[0], .ops = ops, .stream = stream}, st, err);
        for (int64_t i = 0; i < n; i++) sac_decoder_cut_back(states[i], states[i]->cache.n_rows);
        return st;
    }
    for (int64_t i = 0; i < n; i++) {
        sac_decoder_state *s = states[i];
        memcpy(s->n_ahead ? s->ahead_logits : s->logits, b->logits + (size_t)first[i] * vocab,
               (size_t)rows_of(&t, i) * vocab * sizeof(float));
        s->ahead_stays = false;
        if (s->n_ahead)
            sac_decoder_go_ahead(s, 0);
        else
            s->last_row = s->cache.n_rows++;
    }
    return SAC_OK;
}
