#include "block_memory.h"

#include <string.h>

void sac_block_memory_take(sac_block_memory *m, int64_t chunk, const sac_attention_shape *shape,
                           sac_arena *arena) {
    size_t n_heads = (size_t)shape->n_heads, n_layers = (size_t)shape->n_layers, d = (size_t)shape->head_dim;
    size_t block = (size_t)m->block;
    m->n_layers = shape->n_layers;
    m->max_blocks = shape->n_ctx / m->block + 1;
    m->n_blocks = sac_arena_take(arena, n_layers * sizeof *m->n_blocks);
    m->keys = sac_arena_take(arena, n_layers * (size_t)m->max_blocks * n_heads * d * sizeof(float));
    m->n_known = sac_arena_take(arena, n_layers * sizeof *m->n_known);
    m->received = sac_arena_take(arena, n_layers * n_heads * (size_t)shape->n_ctx * sizeof(float));
    m->probes = sac_arena_take(arena, (size_t)chunk * sizeof *m->probes);
    m->sums = sac_arena_take(arena, n_heads * (size_t)(m->local + chunk) * sizeof(float));
    m->best = sac_arena_take(arena, n_heads * (size_t)m->repr * sizeof *m->best);
    m->raw_keys = sac_arena_take(arena, (size_t)shape->n_kv_heads * block * d * sizeof(float));
    m->rows = sac_arena_take(arena, block * sizeof *m->rows);
}

void sac_block_memory_begin(sac_block_memory *m) {
    memset(m->n_known, 0, (size_t)m->n_layers * sizeof *m->n_known);
    memset(m->n_blocks, 0, (size_t)m->n_layers * sizeof *m->n_blocks);
}

static float *received_by(const sac_block_memory *m, const sac_layer_attention *a, int head) {
    return m->received + ((int64_t)a->layer * a->shape->n_heads + head) * a->shape->n_ctx;
}

/* Rows [first, ..) of a view as its rows 0 .. */
static sac_kv_view view_from(sac_kv_view kv, int64_t first) {
    size_t skip = (size_t)(first * kv.row_stride) * sac_dtype_row_bytes(kv.dtype, 1);
    kv.k = (char *)kv.k + skip;
    kv.v = (char *)kv.v + skip;
    kv.n_rows -= first;
    return kv;
}

/* Adds the weights that a chunk's queries, not yet overwritten, give to the tokens of their windows. */
static sac_status receive(sac_block_memory *m, const sac_layer_attention *chunk) {
    int n_heads = chunk->shape->n_heads;
    int64_t first = chunk->past, end = chunk->kv.n_rows, n_probes = 0;
    int64_t low = first >= m->local ? first - m->local + 1 : 0, known = m->n_known[chunk->layer];
    for (int h = 0; h < n_heads; h++)
        memset(received_by(m, chunk, h) + known, 0, (size_t)(end - known) * sizeof(float));
    m->n_known[chunk->layer] = end;
    for (int64_t i = 0; i < chunk->q.rows; i++)
        if ((first + i) % m->probe == 0) m->probes[n_probes++] = (int32_t)i;
    if (n_probes == 0) return SAC_OK;
    SAC_TRY(
        chunk->ops->attention_sums(chunk->stream, &(sac_attention_sums_args){.sums = m->sums,
                                                                             .stride = end - low,
                                                                             .n_sums = n_heads,
                                                                             .q = chunk->q,
                                                                             .probes = m->probes,
                                                                             .n_probes = n_probes,
                                                                             .first = first - low,
                                                                             .kv = view_from(chunk->kv, low),
                                                                             .n_kv = end - low,
                                                                             .n_heads = n_heads,
                                                                             .scale = chunk->scale,
                                                                             .window = m->local}));
    for (int h = 0; h < n_heads; h++)
        for (int64_t j = 0; j < end - low; j++)
            received_by(m, chunk, h)[low + j] += m->sums[h * (end - low) + j];
    return SAC_OK;
}

/* Keys of rows [first, first + block) at position 0. */
static sac_status load_raw_keys(sac_block_memory *m, const sac_layer_attention *a, int64_t first) {
    int64_t start[2] = {0, m->block}, d = a->shape->head_dim;
    for (int64_t i = 0; i < m->block; i++) m->rows[i] = (int32_t)(first + i);
    sac_kv_view raw = {.k = m->raw_keys,
                       .v = m->raw_keys, /* not written */
                       .dtype = SAC_DTYPE_F32,
                       .n_heads = a->shape->n_kv_heads,
                       .head_dim = (int)d,
                       .n_rows = m->block,
                       .row_stride = d,
                       .head_stride = m->block * d};
    return a->ops->kv_gather(a->stream, &(sac_kv_gather_args){.dst = raw,
                                                              .src = a->kv,
                                                              .lists = &(sac_row_lists){m->rows, start, 1},
                                                              .turn_back = m->rows,
                                                              .rotation = &a->rotation,
                                                              .keys_only = true});
}

static sac_status make_block(sac_block_memory *m, const sac_layer_attention *a, int64_t block) {
    int64_t first = m->init + block * m->block;
    int d = a->shape->head_dim, group = a->shape->n_heads / a->shape->n_kv_heads;
    SAC_TRY(load_raw_keys(m, a, first));
    SAC_TRY(a->ops->top_k(a->stream, &(sac_top_k_args){.scores = received_by(m, a, 0) + first,
                                                       .stride = a->shape->n_ctx,
                                                       .n = m->block,
                                                       .n_rows = a->shape->n_heads,
                                                       .k = m->repr,
                                                       .indices = m->best}));
    for (int h = 0; h < a->shape->n_heads; h++) {
        float *mean = sac_block_memory_key(m, a, block) + h * d;
        memset(mean, 0, (size_t)d * sizeof *mean);
        for (int64_t i = 0; i < m->repr; i++) {
            const float *key = m->raw_keys + (h / group * m->block + m->best[h * m->repr + i]) * d;
            for (int c = 0; c < d; c++) mean[c] += key[c] / (float)m->repr;
        }
    }
    return SAC_OK;
}

sac_status sac_block_memory_learn(sac_block_memory *m, const sac_layer_attention *chunk) {
    int64_t *n = &m->n_blocks[chunk->layer];
    for (; m->init + (*n + 1) * m->block <= chunk->past - m->local; ++*n) SAC_TRY(make_block(m, chunk, *n));
    return receive(m, chunk);
}
