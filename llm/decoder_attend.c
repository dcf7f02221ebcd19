/* decoder_attend.c - a layer of a step, and what its attention is told. */
#include "attend.h"
#include "clock.h"
#include "decoder_run.h"

#include <math.h>

sac_layer_attention sac_decoder_layer_attention(const decoder_run *r, int layer, int64_t first, sac_mat q,
                                                sac_kv_view kv, int64_t past, int64_t n_seen) {
    sac_decoder_state *s = r->s;
    return (sac_layer_attention){
        .ops = r->ops,
        .stream = r->stream,
        .shape = &s->shape,
        .layer = layer,
        .q = q,
        .kv = kv,
        .past = past,
        .position = s->positions + first,
        .n_before = first, /* a call's hidden rows begin at its first token's number */
        .n_seen = n_seen,
        .scale = 1.0f / sqrtf((float)s->shape.head_dim),
        .rotation = decoder_rotation(s),
        .visual = s->visual,
        .n_visual = s->n_visual,
        .window_sums = s->window_sums.window ? &s->window_sums : NULL,
        .observer = s->observer,
        .stats = &s->stats[layer],
    };
}

enum { TOGETHER = 32 }; /* sequences at a time: their arguments lie on the stack */

typedef struct group {
    decoder_run r[TOGETHER];
    sac_layer_attention a[TOGETHER];
    sac_block_part part[TOGETHER];
    int n;
} group;

/* Attention of a step whose keys and values are stored. */
static sac_status attend_one(const decoder_run *r, const sac_layer_attention *a) {
    sac_decoder_state *s = r->s;
    const sac_kv_packing *packing = s->cache.choice.format->packing;
    int64_t left = a->kv.n_rows;
    if (packing) {
        SAC_TRY(packing->attend(s->cache.packing, a, &left));
    } else {
        SAC_TRY(sac_decode_attend(&s->decode, a, s->mass));
        if (s->decode.policy->settle) SAC_TRY(s->decode.policy->settle(s->decode.state, a, &left));
    }
    s->cache.layer_rows[a->layer] = left;
    return SAC_OK;
}

/* Steps that are one op and nothing else; `plain` and `packed` get its arguments. */
typedef struct alike {
    sac_attention_args plain[TOGETHER];
    sac_packed_step_args packed[TOGETHER];
    int n_plain, n_packed;
    const sac_layer_attention *of[TOGETHER]; /* all of them */
    int n;
} alike;

/* The rows that it leaves are those that it found. */
static bool is_one_op(const decoder_run *r, const sac_layer_attention *a, alike *x) {
    const sac_kv_cache *c = &r->s->cache;
    const sac_kv_packing *packing = c->choice.format->packing;
    if (!r->s->device) return false;
    if (!packing && r->s->decode.policy == &sac_decode_dense && a->kv.dtype == a->q.dtype)
        x->plain[x->n_plain++] = sac_dense_step(a);
    else if (packing && packing->step && packing->step(c->packing, a, &x->packed[x->n_packed]))
        x->n_packed++;
    else
        return false;
    c->layer_rows[a->layer] = a->kv.n_rows;
    x->of[x->n++] = a;
    return true;
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
    for (int i = 0; i < g->n; i++)
        if (!is_one_op(&g->r[i], &g->a[i], &x)) SAC_TRY(attend_one(&g->r[i], &g->a[i]));
    int64_t start = sac_now_ns();
    SAC_TRY(attend_alike(&g->r[0], &x));
    share_time(&x, sac_now_ns() - start);
    return SAC_OK;
}

/* Sequences from number `at` on. */
static void open_group(const decoder_steps *t, int layer, int64_t at, group *g) {
    g->n = (int)decoder_min(t->n - at, TOGETHER);
    for (int i = 0; i < g->n; i++) {
        sac_decoder_state *s = t->states[at + i];
        int64_t first = s->cache.n_rows, past, n = t->rows_each;
        sac_kv_view kv = sac_kv_cache_begin_step(&s->cache, layer, n, &past);
        g->r[i] = (decoder_run){t->d, s, t->rows.ops, t->rows.stream};
        sac_mat q = sac_mat_rows(t->rows.q, (at + i) * n, n);
        g->a[i] = sac_decoder_layer_attention(&g->r[i], layer, first, q, kv, past, first + 1);
        g->part[i] = (sac_block_part){.n = n,
                                      .rotation = decoder_rotation(s),
                                      .pos = s->device_positions + first,
                                      .kv = kv,
                                      .first = past};
    }
}

sac_status sac_decoder_step_layer(const decoder_steps *t, int layer) {
    const sac_decoder_layer *w = &t->d->layers[layer];
    for (int64_t at = 0; at < t->n; at += TOGETHER) {
        group g;
        open_group(t, layer, at, &g);
        SAC_TRY(at ? sac_block_store(&t->rows, at, g.part, g.n) : sac_block_in(&t->rows, w, g.part, g.n));
        SAC_TRY(t->n > 1 ? attend_together(&g) : attend_one(&g.r[0], &g.a[0]));
    }
    return sac_block_out(&t->rows, w);
}
