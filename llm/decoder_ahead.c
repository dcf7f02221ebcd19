/* decoder_ahead.c - several rows of one sequence in a step. Linear layers run once over all of them, as over a batch;
 * each row's attention is a step's own, over the rows up to it, because a chunk's would round otherwise. Keys and values are
 * read once for all of them. On a device, which rounds otherwise anyway, a few rows are one call of attention. */
#include "decoder_ahead.h"

#include "attend.h"
#include "causal.h"
#include "clock.h"
#include "draft.h"

#include "decoder_ahead_run.h"
#include "decoder_told.h"

#include <assert.h>
#include <string.h>

sac_block_part sac_decoder_part_ahead(const decoder_run *r, int layer, int64_t n) {
    sac_decoder_state *s = r->s;
    sac_block_part part = {.n = n, .rotation = decoder_rotation(r, layer), .pos = s->device_positions + s->cache.n_rows};
    part.kv = sac_kv_cache_begin_step(&s->cache, layer, n, &part.first);
    return part;
}

/* Queries, times the heads that share keys, that a card's attention of few queries is made for (tuning.h); others walk a long context
 * many times slower. */
enum { FEW = 64 };

static sac_status attend_rows(const decoder_run *r, const sac_layer_attention *a, sac_mat q, int64_t past) {
    sac_attention_args each[1 + SAC_DRAFT_MOST];
    if (!r->s->device) {
        for (int64_t i = 0; i < q.rows; i++) each[i] = sac_causal_args(a, sac_mat_rows(q, i, 1), past + i);
        return r->ops->attention_many(r->stream, &(sac_attention_many_args){each, (int)q.rows});
    }
    const int64_t group = a->shape->n_heads / a->shape->n_kv_heads, most = group < FEW ? FEW / group : 1;
    for (int64_t i = 0; i < q.rows; i += most) {
        const sac_attention_args some = sac_causal_args(a, sac_mat_rows(q, i, decoder_min(q.rows - i, most)), past + i);
        SAC_TRY(r->ops->attention(r->stream, &some));
    }
    return SAC_OK;
}

sac_status sac_decoder_attend_ahead(const decoder_run *r, const sac_block_rows *rows, int layer, const sac_block_part *part,
                                    sac_mat q) {
    const int64_t start = sac_now_ns(), first = r->s->cache.n_rows, n = part->n, past = part->first;
    assert(n <= 1 + SAC_DRAFT_MOST);
    q = decoder_as(q, sac_block_query_type(q.dtype, part->kv.dtype));
    sac_layer_attention a = sac_decoder_layer_attention(r, layer, first, q, part->kv, past, first + n);
    SAC_TRY(attend_rows(r, &a, q, past));
    for (int64_t i = 0; i < n; i++) {
        a.n_seen = first + i + 1;
        sac_count_step(&a, (double)(past + i + 1));
    }
    a.stats->attend_ns += sac_now_ns() - start;
    r->s->cache.layer_rows[a.layer] = past + 1;
    return sac_block_convert(rows, q, rows->q.dtype);
}

static sac_status run_layer(const decoder_run *r, const sac_block_rows *rows, int layer, int64_t n) {
    const sac_block_part part = sac_decoder_part_ahead(r, layer, n);
    SAC_TRY(sac_block_in(rows, &r->d->layers[layer], &part, 1));
    SAC_TRY(sac_decoder_attend_ahead(r, rows, layer, &part, rows->q));
    return sac_block_out(rows, &r->d->layers[layer]);
}

/* To s->ahead_logits, or the largest of each row, where a device finds them and no more is wanted; waits for a device. */
static sac_status find_logits(const decoder_run *r, const sac_block_rows *rows, int64_t n) {
    sac_decoder_state *s = r->s;
    const int64_t vocab = r->d->config.vocab;
    float *to = s->device ? s->device_logits : s->ahead_logits;
    SAC_TRY(sac_block_head(rows, r->d->final_norm, &r->d->head, sac_mat_f32(to, n, vocab)));
    s->ahead_stays = sac_decoder_wants_largest(r->d, s);
    if (s->ahead_stays) {
        SAC_TRY(r->ops->largest(r->stream, &(sac_largest_args){.x = to,
                                                               .stride = vocab,
                                                               .n = vocab,
                                                               .n_rows = (int)n,
                                                               .at = s->ahead_largest_at,
                                                               .value = s->ahead_largest}));
        return s->device->stream_sync(r->stream, NULL);
    }
    if (s->device) {
        SAC_TRY(s->device->download(r->stream, s->ahead_logits, to, decoder_floats(n, vocab)));
        SAC_TRY(s->device->stream_sync(r->stream, NULL));
    }
    sac_decoder_end_logits(r->d, s->ahead_logits, n * vocab);
    return SAC_OK;
}

static sac_status run(const decoder_run *r, int64_t past, const int32_t *ids, int64_t n) {
    sac_decoder_state *s = r->s;
    sac_block_rows rows = sac_decoder_rows(r, past, n);
    rows.steps = true;
    SAC_TRY(sac_stream_use(r->stream));
    SAC_TRY(sac_decoder_prepare_ahead(r, past, n));
    if (s->device) memcpy(s->step_id, ids, (size_t)n * sizeof *ids);
    SAC_TRY(decoder_embed(r->d, r->ops, r->stream, rows.hidden, s->device ? s->step_id : ids));
    for (int layer = 0; layer < r->d->config.n_layers; layer++) {
        decoder_show_rows(s, layer, past, rows.hidden);
        SAC_TRY(run_layer(r, &rows, layer, n));
    }
    sac_kv_caches_grow_ahead(&(sac_kv_cache *){&s->cache}, 1, r->stream); /* the device is at the layers */
    return find_logits(r, &rows, n);
}

void sac_decoder_go_ahead(sac_decoder_state *s, int64_t i) {
    const size_t vocab = (size_t)s->vocab;
    s->told = (sac_token_told){0};
    if (s->ahead_stays)
        s->told = (sac_token_told){
            .is_told = true, .largest_at = s->ahead_largest_at[i], .largest = s->ahead_largest[i], .drawn_at = -1};
    else
        memcpy(s->logits, s->ahead_logits + (size_t)i * vocab, vocab * sizeof(float));
    s->last_row = s->cache.n_rows++;
}

sac_status sac_decoder_step_ahead(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                                  const sac_stream *stream, int64_t past, const int32_t *ids, int64_t n,
                                  sac_error *err) {
    decoder_run r = {d, s, ops, stream};
    assert(past == s->cache.n_rows && s->hidden && n >= 1 && n <= s->n_ahead + 1);
    if (n > s->n_ctx - past)
        return sac_fail(err, SAC_TOO_LONG, "the context of %lld tokens is full", (long long)s->n_ctx);
    SAC_TRY(sac_kv_cache_make_room(&s->cache, stream, past + n, err));
    sac_status st = run(&r, past, ids, n);
    if (st == SAC_OK) {
        sac_decoder_go_ahead(s, 0);
        return SAC_OK;
    }
    sac_decoder_cut_back(s, past);
    return sac_decoder_explain(&r, st, err);
}

bool sac_decoder_may_accept(const sac_decoder *d, const sac_decoder_state *s) {
    return !s->ahead_stays || sac_decoder_wants_largest(d, s);
}

void sac_decoder_accept(sac_decoder_state *s, int64_t i) {
    assert(i >= 1 && i <= s->n_ahead && s->cache.n_rows < s->n_ctx);
    for (int layer = 0; layer < s->shape.n_layers; layer++) s->cache.layer_rows[layer]++;
    sac_decoder_go_ahead(s, i);
}
