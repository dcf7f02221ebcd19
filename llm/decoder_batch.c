/* decoder_batch.c - the rows of a batch. */
#include "decoder_batch.h"
#include "decoder_run.h"

#include <assert.h>

void sac_decoder_batch_take(sac_decoder_batch *b, const sac_decoder *d, int64_t capacity,
                            const sac_device *device, sac_dtype activations, sac_arena *arena) {
    const sac_decoder_config *c = &d->config;
    size_t n = (size_t)capacity;
    *b = (sac_decoder_batch){.capacity = capacity, .device = device, .dtype = activations};
    b->hidden = sac_arena_take(arena, n * sac_dtype_row_bytes(b->dtype, c->hidden));
    b->norm = sac_arena_take(arena, n * sac_dtype_row_bytes(b->dtype, c->hidden));
    b->qkv =
        sac_arena_take(arena, n * sac_dtype_row_bytes(b->dtype, decoder_q_cols(c) + 2 * decoder_kv_cols(c)));
    b->gate_up = sac_arena_take(arena, n * sac_dtype_row_bytes(b->dtype, 2 * c->intermediate));
    b->experts = sac_expert_rows_take(&c->experts, c->hidden, capacity, b->dtype, arena);
    if (d->most_rank) b->low = sac_arena_take(arena, n * sac_dtype_row_bytes(b->dtype, d->most_rank));
    b->logits = sac_arena_take(arena, n * (size_t)c->vocab * sizeof(float));
    if (device) b->ids = sac_arena_take(arena, n * sizeof *b->ids);
}

/* Columns [first, first + n) of rows of `stride` elements. */
static sac_mat columns(const sac_decoder_batch *b, void *data, int64_t rows, int64_t stride, int64_t first,
                       int64_t n) {
    return (sac_mat){(uint8_t *)data + sac_dtype_row_bytes(b->dtype, first), rows, n, stride, b->dtype};
}

sac_block_rows sac_decoder_batch_rows(const sac_decoder_batch *b, const sac_decoder *d, int64_t n) {
    const sac_decoder_config *c = &d->config;
    int64_t q = decoder_q_cols(c), kv = decoder_kv_cols(c), all = q + 2 * kv, wide = c->intermediate;
    return (sac_block_rows){.shape = decoder_block_shape(c),
                            .hidden = columns(b, b->hidden, n, c->hidden, 0, c->hidden),
                            .norm = columns(b, b->norm, n, c->hidden, 0, c->hidden),
                            .q = columns(b, b->qkv, n, all, 0, q),
                            .k = columns(b, b->qkv, n, all, q, kv),
                            .v = columns(b, b->qkv, n, all, q + kv, kv),
                            .gate = columns(b, b->gate_up, n, 2 * wide, 0, wide),
                            .up = columns(b, b->gate_up, n, 2 * wide, wide, wide),
                            .experts = b->experts,
                            .low = columns(b, b->low, n, d->most_rank, 0, d->most_rank),
                            .steps = true};
}

void sac_decoder_batch_lend(const sac_decoder_batch *b, const sac_decoder *d, sac_decoder_state *s) {
    sac_block_rows one = sac_decoder_batch_rows(b, d, 1);
    assert(s->n_spare == 0);
    s->hidden = one.hidden.data;
    s->queries = one.q.data;
    s->norm = one.norm.data;
    s->k = one.k.data, s->v = one.v.data;
    s->gate = one.gate.data, s->up = one.up.data;
    s->experts = b->experts;
    s->low = one.low.data;
    s->device_logits = b->device ? b->logits : NULL;
    s->first_row = s->cache.n_rows;
}

int64_t sac_decoder_step_rows(const sac_decoder_state *s) {
    return s->n_spare + 1;
}
