/* decoder_batch.c - the rows of a batch. */
#include "decoder_batch.h"
#include "decoder_run.h"

#include <assert.h>

/* What the product of q gives. */
static int64_t product_cols(const sac_decoder_config *c) {
    return (c->gated_attention ? 2 : 1) * decoder_q_cols(c);
}

void sac_decoder_batch_take(sac_decoder_batch *b, const sac_decoder *d, int64_t capacity, int64_t n_prompt,
                            const sac_device *device, sac_dtype activations, sac_arena *arena) {
    const sac_decoder_config *c = &d->config;
    const int64_t all = capacity + n_prompt;
    size_t n = (size_t)all;
    *b = (sac_decoder_batch){.capacity = capacity, .n_prompt = n_prompt, .device = device, .dtype = activations};
    b->hidden = sac_arena_take(arena, n * sac_dtype_row_bytes(b->dtype, c->hidden));
    b->norm = sac_arena_take(arena, n * sac_dtype_row_bytes(b->dtype, c->hidden));
    b->qkv = sac_arena_take(arena, n * sac_dtype_row_bytes(b->dtype, product_cols(c) + 2 * decoder_kv_cols(c)));
    if (c->gated_attention) {
        b->queries = sac_arena_take(arena, n * sac_dtype_row_bytes(b->dtype, decoder_q_cols(c)));
        b->query_gates = sac_arena_take(arena, n * sac_dtype_row_bytes(b->dtype, decoder_q_cols(c)));
    }
    b->gate_up = sac_arena_take(arena, n * sac_dtype_row_bytes(b->dtype, 2 * sac_decoder_mlp_width(c)));
    b->experts = sac_expert_rows_take(&c->experts, c->hidden, all, b->dtype, arena);
    b->linear = sac_linear_rows_take(&c->linear, all, b->dtype, arena);
    if (d->most_rank) b->low = sac_arena_take(arena, n * sac_dtype_row_bytes(b->dtype, d->most_rank));
    b->logits = sac_arena_take(arena, (size_t)capacity * (size_t)c->vocab * sizeof(float));
    if (!device) return;
    b->ids = sac_arena_take(arena, (size_t)capacity * sizeof *b->ids);
    sac_told_room_take(&b->told_room, capacity, arena);
}

/* Columns [first, first + n) of rows of `stride` elements. */
static sac_mat columns(const sac_decoder_batch *b, void *data, int64_t rows, int64_t stride, int64_t first,
                       int64_t n) {
    return (sac_mat){(uint8_t *)data + sac_dtype_row_bytes(b->dtype, first), rows, n, stride, b->dtype};
}

sac_block_rows sac_decoder_batch_rows(const sac_decoder_batch *b, const sac_decoder *d, int64_t n) {
    const sac_decoder_config *c = &d->config;
    const int64_t q = decoder_q_cols(c), kv = decoder_kv_cols(c), product = product_cols(c), all = product + 2 * kv,
                  wide = sac_decoder_mlp_width(c);
    const sac_mat queries = columns(b, b->qkv, n, all, 0, product);
    return (sac_block_rows){.shape = decoder_block_shape(c),
                            .hidden = columns(b, b->hidden, n, c->hidden, 0, c->hidden),
                            .norm = columns(b, b->norm, n, c->hidden, 0, c->hidden),
                            .q = c->gated_attention ? columns(b, b->queries, n, q, 0, q) : queries,
                            .query_gate = columns(b, b->query_gates, n, q, 0, q),
                            .wide = queries,
                            .k = columns(b, b->qkv, n, all, product, kv),
                            .v = columns(b, b->qkv, n, all, product + kv, kv),
                            .gate = columns(b, b->gate_up, n, 2 * wide, 0, wide),
                            .up = columns(b, b->gate_up, n, 2 * wide, wide, wide),
                            .experts = b->experts,
                            .linear = b->linear,
                            .low = columns(b, b->low, n, d->most_rank, 0, d->most_rank),
                            .steps = true};
}

void sac_decoder_batch_lend(const sac_decoder_batch *b, const sac_decoder *d, sac_decoder_state *s) {
    sac_block_rows one = sac_decoder_batch_rows(b, d, 1);
    assert(s->n_spare == 0);
    s->hidden = one.hidden.data;
    s->queries = one.q.data;
    s->query_gates = one.query_gate.data, s->wide = one.wide.data;
    s->norm = one.norm.data;
    s->k = one.k.data, s->v = one.v.data;
    s->gate = one.gate.data, s->up = one.up.data;
    s->experts = b->experts;
    s->linear = b->linear;
    s->low = one.low.data;
    s->device_logits = b->device ? b->logits : NULL;
    s->told_room.device_best_at = b->told_room.device_best_at, s->told_room.device_best = b->told_room.device_best;
    s->first_row = s->cache.n_rows;
}

int64_t sac_decoder_step_rows(const sac_decoder_state *s) {
    return s->n_spare + 1;
}
