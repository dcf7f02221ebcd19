#include "block_memory.h"

#include "attend.h"

#include <string.h>

void sac_block_memory_take(sac_block_memory *m, int64_t chunk, const sac_attention_shape *shape,
                           const sac_memory *memory) {
    size_t n_heads = (size_t)shape->n_heads, n_layers = (size_t)shape->n_layers, d = (size_t)shape->head_dim;
    size_t block = (size_t)m->block, n_kv = (size_t)shape->n_kv_heads, repr = (size_t)m->repr;
    m->n_layers = shape->n_layers;
    m->chunk = chunk;
    m->max_blocks = shape->n_ctx / m->block + 1;
    m->n_blocks = sac_take_host(memory, n_layers * sizeof *m->n_blocks);
    m->keys = sac_take_device(memory, n_layers * (size_t)m->max_blocks * n_heads * d * sizeof(float));
    m->n_known = sac_take_host(memory, n_layers * sizeof *m->n_known);
    m->received = sac_take_device(memory, n_layers * n_heads * (size_t)shape->n_ctx * sizeof(float));
    m->probes = sac_take_both(memory, (size_t)chunk * sizeof(int32_t));
    m->sums = sac_take_device(memory, n_heads * (size_t)(m->local + chunk) * sizeof(float));
    m->zeros =
        sac_take_device(memory, n_heads * (size_t)chunk * sizeof(float)); /* as a session's memory is */
    m->best = sac_take_device(memory, n_heads * repr * sizeof *m->best);
    m->raw_keys = sac_take_device(memory, n_kv * block * d * sizeof(float));
    m->best_keys = sac_take_device(memory, n_heads * repr * d * sizeof(float));
    m->rows = sac_take_device(memory, block * sizeof *m->rows);
    m->start = sac_take_device(memory, 2 * sizeof *m->start);
    sac_starts_take(&m->starts, shape->n_kv_heads, memory);
    m->most_in_order = chunk > shape->n_heads ? chunk : shape->n_heads;
    m->in_order = sac_take_device(memory, (size_t)m->most_in_order * sizeof *m->in_order);
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

/* 0, 1 .. once. */
static sac_status list_in_order(sac_block_memory *m, const sac_layer_attention *a) {
    if (m->n_in_order) return SAC_OK;
    SAC_TRY(a->ops->choice_rows(
        a->stream,
        &(sac_choice_rows_args){.rows = m->in_order, .init = m->most_in_order, .n_rows = m->most_in_order}));
    m->n_in_order = m->most_in_order;
    return SAC_OK;
}

/* The chunk's queries that are asked: *rows where ops run, *n of them. */
static sac_status list_probes(sac_block_memory *m, const sac_layer_attention *chunk, const int32_t **rows,
                              int64_t *n) {
    int32_t *probes = m->probes.host;
    *n = 0;
    for (int64_t i = 0; i < chunk->q.rows; i++)
        if ((chunk->past + i) % m->probe == 0) probes[(*n)++] = (int32_t)i;
    *rows = m->in_order;
    if (*n == 0 || probes[*n - 1] == *n - 1) return SAC_OK; /* the first ones */
    *rows = m->probes.device;
    return sac_send(chunk, m->probes, (size_t)*n * sizeof *probes);
}

/* Puts the numbers x [n_heads][..], the first for row `row`, to what rows [row, end) have received, or adds
 * them to it. */
static sac_status put_received(sac_block_memory *m, const sac_layer_attention *a, const float *x,
                               int64_t stride, int64_t row, int64_t end, bool add) {
    const sac_mat from = {(float *)(uintptr_t)x, a->shape->n_heads, end - row, stride, SAC_DTYPE_F32};
    const sac_mat to = {received_by(m, a, 0) + row, from.rows, from.cols, a->shape->n_ctx, SAC_DTYPE_F32};
    if (end == row) return SAC_OK;
    return a->ops->scatter_rows(
        a->stream, &(sac_scatter_rows_args){.y = to, .x = from, .target = m->in_order, .accumulate = add});
}

/* Rows [row, end), which no query has given anything. */
static sac_status put_nothing(sac_block_memory *m, const sac_layer_attention *a, int64_t row, int64_t end) {
    for (int64_t n; row < end; row += n) {
        n = end - row < m->chunk ? end - row : m->chunk;
        SAC_TRY(put_received(m, a, m->zeros, n, row, row + n, false));
    }
    return SAC_OK;
}

/* Adds the weights that a chunk's queries, not yet overwritten, give to the tokens of their windows. */
static sac_status receive(sac_block_memory *m, const sac_layer_attention *chunk) {
    int n_heads = chunk->shape->n_heads;
    int64_t first = chunk->past, end = chunk->kv.n_rows, n_probes;
    int64_t low = first >= m->local ? first - m->local + 1 : 0, stride = end - low;
    const int32_t *probes;
    SAC_TRY(list_in_order(m, chunk));
    SAC_TRY(put_nothing(m, chunk, m->n_known[chunk->layer], first)); /* an answer's, of another method */
    m->n_known[chunk->layer] = end;
    SAC_TRY(list_probes(m, chunk, &probes, &n_probes));
    if (n_probes == 0) return put_nothing(m, chunk, first, end);
    SAC_TRY(
        chunk->ops->attention_sums(chunk->stream, &(sac_attention_sums_args){.sums = m->sums,
                                                                             .stride = stride,
                                                                             .n_sums = n_heads,
                                                                             .q = chunk->q,
                                                                             .probes = probes,
                                                                             .n_probes = n_probes,
                                                                             .first = first - low,
                                                                             .kv = view_from(chunk->kv, low),
                                                                             .n_kv = end - low,
                                                                             .n_heads = n_heads,
                                                                             .scale = chunk->scale,
                                                                             .window = m->local}));
    SAC_TRY(put_received(m, chunk, m->sums, stride, low, first, true));
    return put_received(m, chunk, m->sums + (first - low), stride, first, end, false);
}

/* Keys [n_kv_heads][n][head_dim] as a view. */
static sac_kv_view keys_view(const sac_layer_attention *a, float *k, int64_t n) {
    int64_t d = a->shape->head_dim;
    return (sac_kv_view){.k = k,
                         .v = k, /* not written */
                         .dtype = SAC_DTYPE_F32,
                         .n_heads = a->shape->n_kv_heads,
                         .head_dim = (int)d,
                         .n_rows = n,
                         .row_stride = d,
                         .head_stride = n * d};
}

/* Keys of rows [first, first + block) at position 0. */
static sac_status load_raw_keys(sac_block_memory *m, const sac_layer_attention *a, int64_t first) {
    const sac_row_lists list = {m->rows, m->start, 1};
    SAC_TRY(a->ops->choice_rows(
        a->stream, &(sac_choice_rows_args){
                       .rows = m->rows, .local = m->block, .n_rows = first + m->block, .start = m->start}));
    return a->ops->kv_gather(a->stream, &(sac_kv_gather_args){.dst = keys_view(a, m->raw_keys, m->block),
                                                              .src = a->kv,
                                                              .lists = &list,
                                                              .turn_back = m->rows,
                                                              .rotation = &a->rotation,
                                                              .keys_only = true});
}

/* Of each query head the block's tokens that received most. */
static sac_status load_best_keys(sac_block_memory *m, const sac_layer_attention *a, int64_t first) {
    const sac_attention_shape *s = a->shape;
    int64_t n = m->repr * (s->n_heads / s->n_kv_heads);
    SAC_TRY(a->ops->top_k(a->stream, &(sac_top_k_args){.scores = received_by(m, a, 0) + first,
                                                       .stride = s->n_ctx,
                                                       .n = m->block,
                                                       .n_rows = s->n_heads,
                                                       .k = m->repr,
                                                       .indices = m->best}));
    SAC_TRY(sac_starts_set(&m->starts, a, s->n_kv_heads, n));
    const sac_row_lists lists = {m->best, m->starts.at.device, s->n_kv_heads};
    return a->ops->kv_gather(a->stream, &(sac_kv_gather_args){.dst = keys_view(a, m->best_keys, n),
                                                              .src = keys_view(a, m->raw_keys, m->block),
                                                              .lists = &lists,
                                                              .keys_only = true});
}

static sac_status make_block(sac_block_memory *m, const sac_layer_attention *a, int64_t block) {
    int64_t first = m->init + block * m->block, n = a->shape->n_heads * m->repr;
    SAC_TRY(load_raw_keys(m, a, first));
    SAC_TRY(load_best_keys(m, a, first));
    return a->ops->mean_rows(a->stream,
                             &(sac_mean_rows_args){.y = sac_block_memory_key(m, a, block),
                                                   .x = sac_mat_f32(m->best_keys, n, a->shape->head_dim),
                                                   .scale = 1,
                                                   .divisor = (float)m->repr,
                                                   .n_groups = a->shape->n_heads});
}

sac_status sac_block_memory_learn(sac_block_memory *m, const sac_layer_attention *chunk) {
    int64_t *n = &m->n_blocks[chunk->layer];
    for (; m->init + (*n + 1) * m->block <= chunk->past - m->local; ++*n) SAC_TRY(make_block(m, chunk, *n));
    return receive(m, chunk);
}
