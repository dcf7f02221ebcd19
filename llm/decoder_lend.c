/* decoder_lend.c - the memory that a sequence has only while something of it runs. */
#include "decoder_run.h"

#include <string.h>

/* A step's rows are its token's and those that a method computes again; they are few, and a call of their own. */
typedef struct sizes {
    int64_t rows, chunk; /* of hidden states and queries; of everything else */
} sizes;

static sizes sizes_of(const sac_decoder_state *s, sac_decoder_use use) {
    if (use == SAC_FOR_PROMPT) return (sizes){s->n_ctx, s->chunk};
    return (sizes){s->n_spare + 1, s->n_spare + 1};
}

static void *take_rows(const sac_decoder_state *s, const sac_memory *m, int64_t rows, int64_t cols) {
    return sac_take_device(m, (size_t)rows * sac_dtype_row_bytes(s->dtype, cols));
}

static void take_hidden(sac_decoder_state *s, const sac_decoder_config *c, sac_decoder_use use, int64_t rows,
                        const sac_memory *m) {
    s->hidden = take_rows(s, m, rows, c->hidden);
    s->queries = take_rows(s, m, rows, decoder_q_cols(c));
    if (use == SAC_FOR_STEP) return;
    s->embeddings = s->hidden;
    if (s->device) s->embeddings = s->outside_rows ? sac_take_host(m, decoder_floats(rows, c->hidden)) : NULL;
}

static void take_activations(sac_decoder_state *s, const sac_decoder_config *c, sac_decoder_use use,
                             int64_t rows, const sac_memory *m) {
    s->norm = take_rows(s, m, rows, c->hidden);
    s->k = take_rows(s, m, rows, decoder_kv_cols(c));
    s->v = take_rows(s, m, rows, decoder_kv_cols(c));
    s->gate = take_rows(s, m, rows, c->intermediate);
    s->up = take_rows(s, m, rows, c->intermediate);
    if (s->device) s->device_logits = sac_take_device(m, decoder_floats(1, c->vocab));
    if (use == SAC_FOR_STEP) return;
    if (s->device) s->device_ids = sac_take_device(m, (size_t)rows * sizeof *s->device_ids);
    if (s->prefill.policy->picks_queries)
        s->picked_positions = sac_take_device(m, (size_t)rows * sizeof *s->picked_positions);
}

/* The bytes of each purpose go to `l`; with one memory for both, all are the device's. */
static void take(sac_decoder_state *s, const sac_decoder *d, sac_decoder_use use, const sac_memory *m,
                 sac_decoder_loan *on_device, sac_decoder_loan *on_host) {
    sizes n = sizes_of(s, use);
    size_t at = m->device->used_bytes, host_at = m->host->used_bytes;
    *on_host = (sac_decoder_loan){0};
    if (use == SAC_FOR_PROMPT) sac_kv_cache_lend(&s->cache, m->device);
    on_device->staging_bytes = m->device->used_bytes - at;
    at = m->device->used_bytes;
    take_hidden(s, &d->config, use, n.rows, m);
    on_device->hidden_bytes = m->device->used_bytes - at;
    if (s->device) on_host->hidden_bytes = m->host->used_bytes - host_at;
    at = m->device->used_bytes;
    take_activations(s, &d->config, use, n.chunk, m);
    on_device->activation_bytes = m->device->used_bytes - at;
}

void sac_decoder_loan_plan(const sac_decoder_state *s, const sac_decoder *d, sac_decoder_use use,
                           sac_decoder_loan *device, sac_decoder_loan *host) {
    sac_arena one = sac_arena_measure(), other = sac_arena_measure();
    sac_decoder_state copy = *s; /* what is lent to s stays */
    take(&copy, d, use, &(sac_memory){&one, s->device ? &other : &one}, device, host);
}

sac_status sac_decoder_lend(sac_decoder_state *s, const sac_decoder *d, sac_decoder_use use,
                            const sac_stream *stream, sac_arena *device, sac_arena *host, sac_error *err) {
    sac_decoder_loan planned, planned_host, taken, taken_host;
    sac_decoder_loan_plan(s, d, use, &planned, &planned_host);
    take(s, d, use, &(sac_memory){host, s->device ? device : host}, &taken, &taken_host);
    if (memcmp(&planned, &taken, sizeof planned) != 0 ||
        memcmp(&planned_host, &taken_host, sizeof planned_host) != 0) {
        sac_decoder_give_back(s);
        return sac_fail(err, SAC_INTERNAL, "the memory plan leaves no room for what runs of a sequence");
    }
    s->first_row = use == SAC_FOR_STEP ? s->cache.n_rows : 0;
    if (!s->device || !s->cache.staging) return SAC_OK;
    SAC_TRY(s->device->use(s->device));
    if (s->device->zero(stream, s->cache.staging, taken.staging_bytes) == SAC_OK) return SAC_OK;
    sac_decoder_give_back(s);
    return sac_fail(err, SAC_DEVICE, "%s: clearing the rows of a layer failed", s->device->name);
}

void sac_decoder_give_back(sac_decoder_state *s) {
    s->cache.staging = NULL;
    s->hidden = s->queries = s->norm = s->k = s->v = s->gate = s->up = NULL;
    s->device_logits = s->embeddings = NULL;
    s->device_ids = s->picked_positions = NULL;
}
