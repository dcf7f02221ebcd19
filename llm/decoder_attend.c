/* decoder_attend.c - a layer of a step, and what its attention is told. */
#include "attend.h"
#include "clock.h"
#include "decoder_run.h"

#include <math.h>

sac_layer_attention sac_decoder_layer_attention(const decoder_run *r, int layer, int64_t first, sac_mat q,
                                                sac_kv_view kv, int64_t past, int64_t n_seen) {
    sac_decoder_state *s = r->s;
    const sac_decoder_config *c = &r->d->config;
    return (sac_layer_attention){
        .ops = r->ops,
        .stream = r->stream,
        .shape = &s->shape,
        .layer = sac_decoder_attending(c, layer),
        .q = q,
        .kv = kv,
        .past = past,
        .position = s->positions + first,
        .n_before = first, /* a call's hidden rows begin at its first token's number */
        .n_seen = n_seen,
        .scale = c->attention_scale > 0 ? c->attention_scale : 1.0f / sqrtf((float)s->shape.head_dim),
        .window = sac_decoder_slides(c, layer) ? c->sliding_window : 0,
        .rotation = decoder_rotation(r, layer),
        .visual = s->visual,
        .n_visual = s->n_visual,
        .window_sums = s->window_sums.window ? &s->window_sums : NULL,
        .observer = s->observer,
        .stats = &s->stats[sac_decoder_attending(c, layer)],
    };
}

enum { TOGETHER = 32 }; /* sequences at a time: their arguments lie on the stack */

typedef struct group {
    decoder_run r[TOGETHER];
    sac_layer_attention a[TOGETHER];
    sac_block_part part[TOGETHER];
    int n;
} group;

/* After the attention of a step over rows as they are stored. */
static sac_status settle_one(const decoder_run *r, const sac_layer_attention *a) {
    sac_decoder_state *s = r->s;
    int64_t left = a->kv.n_rows;
    if (s->decode.policy->settle) SAC_TRY(s->decode.policy->settle(s->decode.state, a, &left));
    s->cache.layer_rows[a->layer] = left;
    return SAC_OK;
}

/* Attention of a step whose keys and values are stored. */
sac_status sac_decoder_step_attend_one(const decoder_run *r, const sac_layer_attention *a) {
    sac_decoder_state *s = r->s;
    const sac_kv_packing *packing = s->cache.choice.format->packing;
    int64_t left = a->kv.n_rows;
    if (!packing) {
        SAC_TRY(sac_decode_attend(&s->decode, a, &s->mass));
        return settle_one(r, a);
    }
    SAC_TRY(packing->attend(s->cache.packing, a, &left));
    s->cache.layer_rows[a->layer] = left;
    return SAC_OK;
}

/* Steps whose last op is of a kind that several sequences can share; `plain` and `packed` get its arguments. */
typedef struct alike {
    sac_attention_args plain[TOGETHER];
    sac_row_lists lists[TOGETHER]; /* of plain */
    sac_packed_step_args packed[TOGETHER];
    int n_plain, n_packed;
    const sac_layer_attention *of[TOGETHER]; /* all of them */
    int n;
} alike;

/* Whether the step chooses rows for the shared attention, in the type that queries have: one that has an
 * attention of its own, or is measured, goes alone. */
static bool chooses_rows(const decoder_run *r, const sac_layer_attention *a) {
    return !r->s->cache.choice.format->packing && !r->s->decode.policy->attend && !a->shape->measure_mass &&
           a->kv.dtype == a->q.dtype;
}

/* Whether attention_many knows such a call (op_attention_many.h). */
static bool is_shared(const sac_attention_args *call) {
    bool by_query_head = call->lists && call->lists->n_lists != 1 && call->lists->n_lists != call->kv.n_heads;
    return !call->uneven && call->causal && !by_query_head;
}

/* All but the attention, where that can wait for the others'; else that too. */
static sac_status choose_one(const decoder_run *r, const sac_layer_attention *a, alike *x) {
    sac_attention_args *call = &x->plain[x->n_plain];
    sac_choice choice;
    SAC_TRY(sac_decode_choose(&r->s->decode, a, &choice));
    int64_t start = sac_now_ns();
    SAC_TRY(sac_choice_call(a, &choice, &x->lists[x->n_plain], call));
    if (call->n_q > 0 && is_shared(call)) {
        x->n_plain++;
        x->of[x->n++] = a;
    } else if (call->n_q > 0) {
        SAC_TRY(r->ops->attention(r->stream, call));
    }
    a->stats->attend_ns += sac_now_ns() - start;
    return SAC_OK;
}

/* What no other sequence can share; the rest to x. */
static sac_status begin_one(const decoder_run *r, const sac_layer_attention *a, alike *x) {
    const sac_kv_cache *c = &r->s->cache;
    const sac_kv_packing *packing = c->choice.format->packing;
    if (chooses_rows(r, a)) return choose_one(r, a, x);
    if (!r->ops->fuses || !packing || !packing->step ||
        !packing->step(c->packing, a, &x->packed[x->n_packed]))
        return sac_decoder_step_attend_one(r, a);
    x->n_packed++;
    x->of[x->n++] = a;
    c->layer_rows[a->layer] = a->kv.n_rows; /* the op leaves the rows that it found */
    return SAC_OK;
}

static sac_status attend_alike(const decoder_run *r, const alike *x) {
    sac_status st = r->ops->attention_many(r->stream, &(sac_attention_many_args){x->plain, x->n_plain});
    for (int i = 0; st == SAC_UNSUPPORTED && i < x->n_plain; i++)
        SAC_TRY(r->ops->attention(r->stream, &x->plain[i]));
    if (st != SAC_OK && st != SAC_UNSUPPORTED) return st;
    st = r->ops->packed_step_many(r->stream, &(sac_packed_step_many_args){x->packed, x->n_packed});
    for (int i = 0; st == SAC_UNSUPPORTED && i < x->n_packed; i++)
        SAC_TRY(r->ops->packed_step(r->stream, &x->packed[i]));
    return st == SAC_UNSUPPORTED ? SAC_OK : st;
}

/* Each gets its share of their time, by what it has to read. */
static void share_time(const alike *x, int64_t ns) {
    double all = 0;
    for (int i = 0; i < x->n; i++) all += (double)x->of[i]->n_seen;
    for (int i = 0; i < x->n; i++)
        x->of[i]->stats->attend_ns += (int64_t)((double)ns * (double)x->of[i]->n_seen / all);
}

static sac_status attend_together(const group *g) {
    alike x = {.n_plain = 0};
    for (int i = 0; i < g->n; i++) SAC_TRY(begin_one(&g->r[i], &g->a[i], &x));
    int64_t start = sac_now_ns();
    SAC_TRY(attend_alike(&g->r[0], &x));
    share_time(&x, sac_now_ns() - start);
    for (int i = 0; i < g->n; i++)
        if (chooses_rows(&g->r[i], &g->a[i])) SAC_TRY(settle_one(&g->r[i], &g->a[i]));
    return SAC_OK;
}

sac_layer_attention sac_decoder_step_open(const decoder_steps *t, int layer, int64_t i, sac_block_part *part) {
    sac_decoder_state *s = t->states[i];
    const decoder_run r = {t->d, s, t->rows.ops, t->rows.stream};
    int64_t first = s->cache.n_rows, past, row = decoder_first_row(t, i), n = decoder_first_row(t, i + 1) - row;
    sac_kv_view kv = sac_kv_cache_begin_step(&s->cache, sac_decoder_attending(&t->d->config, layer), n, &past);
    sac_mat q = sac_mat_rows(t->rows.q, row, n);
    q.dtype = sac_block_query_type(q.dtype, kv.dtype);
    *part = (sac_block_part){
        .n = n, .rotation = decoder_rotation(&r, layer), .pos = s->device_positions + first, .kv = kv, .first = past};
    return sac_decoder_layer_attention(&r, layer, first, q, kv, past, first + 1);
}

/* Sequences from number `at` on. */
static void open_group(const decoder_steps *t, int layer, int64_t at, group *g) {
    g->n = (int)decoder_min(t->n - at, TOGETHER);
    for (int i = 0; i < g->n; i++) {
        g->r[i] = (decoder_run){t->d, t->states[at + i], t->rows.ops, t->rows.stream};
        g->a[i] = sac_decoder_step_open(t, layer, at + i, &g->part[i]);
    }
}

/* What attention made of queries, to the type of activations: as many rows at a time as were of one type. */
static sac_status take_back(const decoder_steps *t, const group *g) {
    const sac_block_rows *r = &t->rows;
    for (int i = 0; i < g->n;) {
        sac_mat q = g->a[i].q;
        while (++i < g->n && g->a[i].q.dtype == q.dtype) q.rows += g->a[i].q.rows;
        SAC_TRY(sac_block_convert(r, q, r->q.dtype));
    }
    return SAC_OK;
}

/* Each sequence's rows go on from its state. */
static sac_status step_linear(const decoder_steps *t, int layer) {
    const sac_decoder_layer *w = &t->d->layers[layer];
    const int number = layer - sac_decoder_attending(&t->d->config, layer);
    SAC_TRY(sac_block_linear_in(&t->rows, w));
    for (int64_t at = 0, n; at < t->n; at += n) {
        sac_linear_part parts[SAC_LINEAR_TOGETHER];
        n = decoder_min(t->n - at, SAC_LINEAR_TOGETHER);
        for (int64_t i = 0; i < n; i++)
            parts[i] = (sac_linear_part){decoder_first_row(t, at + i + 1) - decoder_first_row(t, at + i), &t->states[at + i]->states};
        SAC_TRY(sac_block_linear_recur(&t->rows, w, number, decoder_first_row(t, at), parts, (int)n));
    }
    return sac_block_linear_out(&t->rows, w);
}

/* w: what makes the queries, keys and values of all rows; NULL: they are made. */
static sac_status attend_groups(const decoder_steps *t, int layer, const sac_decoder_layer *w) {
    for (int64_t at = 0; at < t->n; at += TOGETHER) {
        group g;
        open_group(t, layer, at, &g);
        SAC_TRY(at || !w ? sac_block_store(&t->rows, decoder_first_row(t, at), g.part, g.n)
                         : sac_block_in(&t->rows, w, g.part, g.n));
        SAC_TRY(t->n > 1 ? attend_together(&g) : sac_decoder_step_attend_one(&g.r[0], &g.a[0]));
        SAC_TRY(take_back(t, &g));
    }
    return SAC_OK;
}

sac_status sac_decoder_step_attend(const decoder_steps *t, int layer) {
    return attend_groups(t, layer, NULL);
}

sac_status sac_decoder_step_layer(const decoder_steps *t, int layer) {
    const sac_decoder_layer *w = &t->d->layers[layer];
    if (sac_decoder_is_linear(&t->d->config, layer)) return step_linear(t, layer);
    SAC_TRY(attend_groups(t, layer, w));
    if (layer < t->d->config.n_layers - 1 || t->n > 1 || !t->first) return sac_block_out(&t->rows, w);
    /* of tokens that are computed again the last layer's keys and values are all that is wanted */
    const sac_block_rows own = sac_block_rows_from(&t->rows, t->first[1] - 1, 1);
    return sac_block_out(&own, w);
}
