/* decoder_attend.c - attention of a step of several sequences. */
#include "attend.h"
#include "clock.h"
#include "decoder_batch.h"
#include "decoder_run.h"

enum { TOGETHER = 32 }; /* sequences at a time: their arguments lie on the stack */

typedef struct group {
    decoder_run r[TOGETHER];
    sac_layer_attention a[TOGETHER];
    int n;
} group;

static sac_status store_one(const decoder_run *r, const sac_layer_attention *a, sac_mat k, sac_mat v) {
    int64_t first = r->s->cache.n_rows;
    SAC_TRY(rotate(r, a->q, r->d->config.n_heads, first));
    SAC_TRY(rotate(r, k, r->d->config.n_kv_heads, first));
    return r->ops->kv_store(r->stream, &(sac_kv_store_args){a->kv, k, v, a->past});
}

static sac_status store_each(const group *g, sac_mat k, sac_mat v) {
    for (int i = 0; i < g->n; i++)
        SAC_TRY(store_one(&g->r[i], &g->a[i], sac_mat_rows(k, i, 1), sac_mat_rows(v, i, 1)));
    return SAC_OK;
}

static sac_status store_all(const group *g, sac_mat k, sac_mat v) {
    const decoder_run *r = &g->r[0];
    sac_token_store each[TOGETHER];
    if (!r->s->device) return store_each(g, k, v);
    for (int i = 0; i < g->n; i++)
        each[i] = (sac_token_store){.q = g->a[i].q,
                                    .k = sac_mat_rows(k, i, 1),
                                    .v = sac_mat_rows(v, i, 1),
                                    .rotation = rotation(&g->r[i]),
                                    .pos = g->r[i].s->device_positions + g->r[i].s->cache.n_rows,
                                    .kv = g->a[i].kv,
                                    .first = g->a[i].past,
                                    .n_heads = r->d->config.n_heads};
    sac_status st = r->ops->store_many(r->stream, &(sac_store_many_args){each, g->n});
    return st == SAC_UNSUPPORTED ? store_each(g, k, v) : st;
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

static sac_status attend_group(group *g, sac_mat k, sac_mat v) {
    alike x = {.n_plain = 0};
    SAC_TRY(store_all(g, k, v));
    for (int i = 0; i < g->n; i++)
        if (!is_one_op(&g->r[i], &g->a[i], &x)) SAC_TRY(sac_decoder_attend_step(&g->r[i], &g->a[i]));
    int64_t start = sac_now_ns();
    SAC_TRY(attend_alike(&g->r[0], &x));
    share_time(&x, sac_now_ns() - start);
    return SAC_OK;
}

sac_status sac_decoder_step_attend(const sac_decoder *d, sac_decoder_state *const *states, int64_t n,
                                   const sac_ops *ops, const sac_stream *stream, int layer, sac_mat q,
                                   sac_mat k, sac_mat v) {
    for (int64_t at = 0; at < n; at += TOGETHER) {
        group g = {.n = (int)min_rows(n - at, TOGETHER)};
        for (int i = 0; i < g.n; i++) {
            sac_decoder_state *s = states[at + i];
            int64_t first = s->cache.n_rows, past;
            sac_kv_view kv = sac_kv_cache_begin_layer(&s->cache, layer, 1, true, &past);
            g.r[i] = (decoder_run){d, s, ops, stream};
            g.a[i] = sac_decoder_layer_attention(&g.r[i], layer, first, 1, kv, past, first + 1);
            g.a[i].q = sac_mat_rows(q, at + i, 1);
        }
        SAC_TRY(attend_group(&g, sac_mat_rows(k, at, g.n), sac_mat_rows(v, at, g.n)));
    }
    return SAC_OK;
}
