/* decoder_lend.c - the memory that a sequence has only while something of it runs. */
#include "decoder_run.h"

#include <string.h>

/* A step's rows are its token's, those that a method computes again and drafted ones; they are few, and a call of their
 * own. */
typedef struct sizes {
    int64_t rows, chunk; /* of hidden states and queries; of everything else */
} sizes;

static sizes sizes_of(const sac_decoder_state *s, sac_decoder_use use) {
    if (use == SAC_FOR_PROMPT) return (sizes){s->n_ctx, s->chunk};
    int64_t n = s->n_spare + 1 + s->n_ahead;
    return (sizes){n, n};
}

static void *take_rows(const sac_decoder_state *s, sac_arena *a, int64_t rows, int64_t cols) {
    return sac_arena_take(a, (size_t)rows * sac_dtype_row_bytes(s->dtype, cols));
}

static void take_activations(sac_decoder_state *s, const sac_decoder *d, sac_decoder_use use, int64_t rows,
                             sac_arena *a) {
    const sac_decoder_config *c = &d->config;
    s->norm = take_rows(s, a, rows, c->hidden);
    s->k = take_rows(s, a, rows, decoder_kv_cols(c));
    s->v = take_rows(s, a, rows, decoder_kv_cols(c));
    s->gate = take_rows(s, a, rows, sac_decoder_mlp_width(c));
    s->up = take_rows(s, a, rows, sac_decoder_mlp_width(c));
    s->experts = sac_expert_rows_take(&c->experts, c->hidden, rows, s->dtype, a);
    s->linear = sac_linear_rows_take(&c->linear, rows, s->dtype, a);
    if (c->gated_attention) s->wide = take_rows(s, a, rows, 2 * decoder_q_cols(c));
    if (d->most_rank) s->low = take_rows(s, a, rows, d->most_rank);
    if (s->device) {
        s->device_logits = sac_arena_take(a, decoder_floats(use == SAC_FOR_STEP ? 1 + s->n_ahead : 1, c->vocab));
        sac_told_room_take(&s->told_room, 1, a);
    }
    if (use == SAC_FOR_STEP) return;
    if (s->device) s->device_ids = sac_arena_take(a, (size_t)rows * sizeof *s->device_ids);
    if (s->prefill.policy->picks_queries)
        s->picked_positions = sac_arena_take(a, (size_t)rows * sizeof *s->picked_positions);
}

/* And the bytes of each purpose. */
static sac_decoder_loan take(sac_decoder_state *s, const sac_decoder *d, sac_decoder_use use, sac_arena *a) {
    const sac_decoder_config *c = &d->config;
    sizes n = sizes_of(s, use);
    sac_decoder_loan loan;
    size_t at = a->used_bytes;
    if (use == SAC_FOR_PROMPT) sac_kv_cache_lend(&s->cache, a);
    loan.staging_bytes = a->used_bytes - at;
    at = a->used_bytes;
    s->hidden = take_rows(s, a, n.rows, c->hidden);
    s->queries = take_rows(s, a, n.rows, decoder_q_cols(c));
    if (c->gated_attention) s->query_gates = take_rows(s, a, n.rows, decoder_q_cols(c));
    if (use == SAC_FOR_PROMPT && c->n_deep) s->deep = take_rows(s, a, n.rows, (int64_t)c->n_deep * c->hidden);
    loan.hidden_bytes = a->used_bytes - at;
    at = a->used_bytes;
    take_activations(s, d, use, n.chunk, a);
    loan.activation_bytes = a->used_bytes - at;
    return loan;
}

sac_decoder_loan sac_decoder_loan_plan(const sac_decoder_state *s, const sac_decoder *d,
                                       sac_decoder_use use) {
    sac_arena measure = sac_arena_measure();
    sac_decoder_state copy = *s; /* what is lent to s stays */
    return take(&copy, d, use, &measure);
}

size_t sac_decoder_loan_bytes(const sac_decoder_loan *l) {
    return l->staging_bytes + l->hidden_bytes + l->activation_bytes;
}

sac_status sac_decoder_lend(sac_decoder_state *s, const sac_decoder *d, sac_decoder_use use,
                            const sac_stream *stream, sac_arena *arena, sac_error *err) {
    sac_decoder_loan planned = sac_decoder_loan_plan(s, d, use), taken = take(s, d, use, arena);
    if (memcmp(&planned, &taken, sizeof planned) != 0) {
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
    s->hidden = s->deep = s->queries = s->norm = s->k = s->v = s->gate = s->up = s->low = NULL;
    s->query_gates = s->wide = NULL;
    s->experts = (sac_expert_rows){0};
    s->linear = (sac_linear_rows){0};
    s->device_logits = NULL;
    s->told_room.device_best_at = NULL, s->told_room.device_best = NULL;
    s->device_ids = s->picked_positions = NULL;
}
