/* decoder_batch_ahead.c - several sequences in one pass, some with drafted rows behind their own: linear layers run once over the
 * rows of all, attention is each row's own, as in decoder_ahead.c. */
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

static sac_status run_layer(const decoder_steps *t, int layer) {
    const sac_decoder_layer *w = &t->d->layers[layer];
    for (int64_t at = 0, n; at < t->n; at += n) {
        sac_block_part parts[TOGETHER];
        n = decoder_min(t->n - at, TOGETHER);
        for (int64_t i = 0; i < n; i++) {
            const decoder_run r = run_of(t, at + i);
            decoder_show_rows(r.s, layer, r.s->cache.n_rows,
                              sac_mat_rows(t->rows.hidden, t->first[at + i], rows_of(t, at + i)));
            parts[i] = sac_decoder_part_ahead(&r, layer, rows_of(t, at + i));
        }
        SAC_TRY(at ? sac_block_store(&t->rows, t->first[at], parts, (int)n) : sac_block_in(&t->rows, w, parts, (int)n));
        for (int64_t i = 0; i < n; i++) {
            const decoder_run r = run_of(t, at + i);
            const sac_mat q = sac_mat_rows(t->rows.q, t->first[at + i], parts[i].n);
            SAC_TRY(sac_decoder_attend_ahead(&r, &t->rows, layer, &parts[i], q));
        }
    }
    return sac_block_out(&t->rows, w);
}

static sac_status run(const decoder_steps *t, const sac_decoder_batch *b, const int32_t *ids) {
    const sac_block_rows *rows = &t->rows;
    const int64_t n_rows = t->first[t->n];
    for (int64_t i = 0; i < t->n; i++) {
        const decoder_run r = run_of(t, i);
        SAC_TRY(sac_decoder_prepare_ahead(&r, r.s->cache.n_rows, rows_of(t, i)));
        for (int64_t row = t->first[i]; t->d->n_adapters && row < t->first[i + 1]; row++) b->adapters[row] = r.s->adapter;
    }
    SAC_TRY(decoder_embed(t->d, rows->ops, rows->stream, rows->hidden, ids));
    for (int layer = 0; layer < t->d->config.n_layers; layer++) SAC_TRY(run_layer(t, layer));
    SAC_TRY(sac_block_head(rows, t->d->final_norm, &t->d->head, sac_mat_f32(b->logits, n_rows, t->d->config.vocab)));
    sac_decoder_end_logits(t->d, b->logits, n_rows * t->d->config.vocab);
    return SAC_OK;
}

static sac_status check_room(const decoder_steps *t, sac_error *err) {
    for (int64_t i = 0; i < t->n; i++) {
        const sac_decoder_state *s = t->states[i];
        assert(s->n_ahead && rows_of(t, i) >= 1 && rows_of(t, i) <= s->n_ahead + 1 && !s->device && !s->states.n_layers);
        if (rows_of(t, i) > s->n_ctx - s->cache.n_rows)
            return sac_fail(err, SAC_TOO_LONG, "the context of %lld tokens is full", (long long)s->n_ctx);
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
    sac_status st = check_room(&t, err);
    if (st != SAC_OK) return st;
    st = run(&t, b, ids);
    if (st != SAC_OK) {
        st = sac_decoder_explain(&(decoder_run){.d = d, .s = states[0], .ops = ops, .stream = stream}, st, err);
        for (int64_t i = 0; i < n; i++) sac_decoder_cut_back(states[i], states[i]->cache.n_rows);
        return st;
    }
    for (int64_t i = 0; i < n; i++) {
        memcpy(states[i]->ahead_logits, b->logits + (size_t)first[i] * vocab, (size_t)rows_of(&t, i) * vocab * sizeof(float));
        sac_decoder_go_ahead(states[i], 0);
    }
    return SAC_OK;
}
