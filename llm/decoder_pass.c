/* decoder_pass.c - the prompts' part of a pass. Their rows stand before those of the steps. In the last layer nobody reads what
 * becomes of them but of a prompt's last one: these go on with the steps' rows, whose bits they have (few rows, prefill.h). */
#include "decoder_pass.h"

#include "decoder_deep.h"
#include "decoder_pick.h"

#include <assert.h>

/* ---------------------------------------------------------------- which */

/* Whether no part of the method looks at a prompt as a whole. */
static bool looks_at_no_prompt(const sac_decode *m) {
    for (; m; m = m->base)
        if (m->policy->prompt || m->policy->settle || m->policy->inputs) return false;
    return true;
}

static bool may_join(const sac_prefill_work *w) {
    const sac_decoder_state *s = w->s;
    const bool begins = sac_prefill_work_begins_layer(w) && w->layer == 0;
    return begins && w->n_out == 1 && !w->d->n_adapters && !s->states.n_layers && s->prefill.policy->is_dense &&
           looks_at_no_prompt(&s->decode) && !sac_kv_cache_is_packed(&s->cache) && !s->drafting.policy && !s->observer.fn &&
           !s->window_sums.window && !s->shape.measure_mass && !s->shape.sees_spans && s->chunk > 2 * SAC_LINEAR_FEW_ROWS;
}

/* Neither a chunk nor what it leaves is of few rows. */
int64_t sac_prefill_pass_rows(const sac_prefill_work *w, int64_t most) {
    const int64_t few = SAC_LINEAR_FEW_ROWS;
    if (!may_join(w)) return 0;
    int64_t n = decoder_min(w->n, most);
    if (n < w->n && w->n - n <= few) n = w->n - few - 1;
    return n > few ? n : 0;
}

/* ---------------------------------------------------------------- a layer */

typedef struct opened {
    sac_block_part part[SAC_PASS_CHUNKS];
    sac_layer_attention a[SAC_PASS_CHUNKS];
} opened;

static bool ends(const sac_pass_chunk *c) {
    return c->n == c->work->n;
}

/* Rows of the chunk, which begin at row `at` of the pass, in the layer. */
static sac_status open_chunk(const decoder_steps *t, int layer, const sac_pass_chunk *c, int64_t at, sac_block_part *part,
                             sac_layer_attention *a) {
    sac_prefill_work *w = c->work;
    const decoder_run r = {t->d, w->s, t->rows.ops, t->rows.stream};
    const int number = sac_decoder_attending(&t->d->config, layer);
    decoder_show_rows(w->s, layer, w->past, sac_mat_rows(t->rows.hidden, at, c->n));
    *part = (sac_block_part){.n = c->n, .rotation = decoder_rotation(&r, layer), .pos = w->s->device_positions + w->past};
    SAC_TRY(sac_kv_cache_begin_layer(&w->s->cache, r.ops, r.stream, number, c->n, &part->kv, &part->first));
    sac_mat q = sac_mat_rows(t->rows.q, at, c->n);
    q.dtype = sac_block_query_type(q.dtype, part->kv.dtype);
    *a = sac_decoder_layer_attention(&r, layer, w->past, q, part->kv, part->first, w->past + c->n);
    if (layer + 1 == t->d->config.n_layers) a->n_unread = ends(c) ? c->n - 1 : c->n;
    return SAC_OK;
}

static sac_status attend_chunk(const decoder_steps *t, const sac_pass_chunk *c, const sac_layer_attention *a) {
    sac_decoder_state *s = c->work->s;
    SAC_TRY(sac_prefill_attend(&s->prefill, a));
    const sac_important important = sac_prefill_important(&s->prefill);
    SAC_TRY(sac_kv_cache_end_layer(&s->cache, a, a->past + c->n, &important));
    return sac_block_convert(&t->rows, a->q, t->rows.q.dtype);
}

static sac_status move_row(const decoder_steps *t, sac_mat m, int64_t to, int64_t from) {
    if (to == from || !m.data) return SAC_OK;
    return t->rows.ops->convert_rows(
        t->rows.stream, &(sac_convert_rows_args){.y = sac_mat_rows(m, to, 1), .x = sac_mat_rows(m, from, 1)});
}

/* The last rows of prompts that end, to right before those of the steps: from the last chunk on, so that none is overwritten
 * before it has moved. Returns how many they are in *n_moved. */
static sac_status gather_last(const decoder_steps *t, int64_t *n_moved) {
    int64_t end = t->n_before;
    *n_moved = 0;
    for (int64_t i = t->n_chunks - 1; i >= 0; end -= t->chunks[i--].n) {
        if (!ends(&t->chunks[i])) continue;
        const int64_t to = t->n_before - ++*n_moved;
        SAC_TRY(move_row(t, t->rows.hidden, to, end - 1));
        SAC_TRY(move_row(t, t->rows.q, to, end - 1));
        SAC_TRY(move_row(t, t->rows.query_gate, to, end - 1));
    }
    return SAC_OK;
}

/* The last hidden rows to where the sequences have them. */
static sac_status hand_back(const decoder_steps *t) {
    int64_t at = t->n_before;
    for (int64_t i = t->n_chunks - 1; i >= 0; i--) {
        const sac_prefill_work *w = t->chunks[i].work;
        if (!ends(&t->chunks[i])) continue;
        SAC_TRY(t->rows.ops->convert_rows(t->rows.stream, &(sac_convert_rows_args){.y = sac_decoder_hidden(w->s, w->past + w->n - 1, 1),
                                                                                   .x = sac_mat_rows(t->rows.hidden, --at, 1)}));
    }
    return SAC_OK;
}

static sac_status last_out(const decoder_steps *t, const sac_decoder_layer *w) {
    int64_t n_last;
    SAC_TRY(gather_last(t, &n_last));
    const int64_t first = t->n_before - n_last;
    const sac_block_rows read = sac_block_rows_from(&t->rows, first, t->rows.hidden.rows - first);
    SAC_TRY(sac_block_out(&read, w));
    return hand_back(t);
}

static sac_status add_deep(const decoder_steps *t, int layer) {
    int64_t at = 0;
    for (int64_t i = 0; i < t->n_chunks; at += t->chunks[i++].n)
        SAC_TRY(sac_decoder_add_deep_to(t->chunks[i].work, t->rows.stream, layer, t->chunks[i].work->past,
                                        sac_mat_rows(t->rows.hidden, at, t->chunks[i].n)));
    return SAC_OK;
}

sac_status sac_decoder_pass_layer(const decoder_steps *t, int layer) {
    const sac_decoder_layer *w = &t->d->layers[layer];
    opened o;
    int64_t at = 0;
    for (int64_t i = 0; i < t->n_chunks; at += t->chunks[i++].n)
        SAC_TRY(open_chunk(t, layer, &t->chunks[i], at, &o.part[i], &o.a[i]));
    SAC_TRY(sac_block_in(&t->rows, w, o.part, (int)t->n_chunks));
    for (int64_t i = 0; i < t->n_chunks; i++) SAC_TRY(attend_chunk(t, &t->chunks[i], &o.a[i]));
    SAC_TRY(sac_decoder_step_attend(t, layer));
    if (layer + 1 == t->d->config.n_layers) return last_out(t, w);
    SAC_TRY(sac_block_out(&t->rows, w));
    return add_deep(t, layer);
}

/* ---------------------------------------------------------------- before and after */

sac_status sac_decoder_pass_begin(const decoder_steps *t) {
    int64_t at = 0;
    for (int64_t i = 0; i < t->n_chunks; at += t->chunks[i++].n) {
        const sac_pass_chunk *c = &t->chunks[i];
        SAC_TRY(t->rows.ops->convert_rows(t->rows.stream, &(sac_convert_rows_args){.y = sac_mat_rows(t->rows.hidden, at, c->n),
                                                                                   .x = sac_decoder_hidden(c->work->s, c->work->past, c->n)}));
    }
    return SAC_OK;
}

void sac_decoder_pass_end(const decoder_steps *t) {
    for (int64_t i = 0; i < t->n_chunks; i++) {
        sac_prefill_work *w = t->chunks[i].work;
        w->past += t->chunks[i].n;
        w->n -= t->chunks[i].n;
        if (w->n > 0) continue;
        w->s->last_row = w->past - 1;
        w->s->cache.n_rows = w->n_seen;
        w->stage = SAC_PREFILL_DONE;
    }
}
