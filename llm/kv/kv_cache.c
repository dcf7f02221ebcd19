#include "kv_cache.h"
#include "kv_pages.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of n rows of keys and values of one layer. */
static size_t rows_bytes(const sac_kv_cache *c, int64_t n) {
    return 2 * (size_t)n * (size_t)c->shape->n_kv_heads * sac_dtype_row_bytes(c->dtype, c->shape->head_dim);
}

sac_status sac_kv_cache_open(sac_kv_cache *c, const sac_kv_choice *choice, const sac_attention_shape *shape,
                             int64_t n_spare, sac_error *err) {
    const sac_kv_packing *packing = choice->format->packing;
    *c = (sac_kv_cache){.choice = *choice,
                        .shape = shape,
                        .dtype = choice->format->dtype,
                        .capacity = shape->n_ctx + n_spare};
    if (packing && shape->device && shape->dtype != SAC_DTYPE_F32) c->dtype = shape->dtype;
    c->layer_bytes = rows_bytes(c, c->capacity);
    if (!packing) return SAC_OK;
    c->tail = packing->n_tail_max(choice->p);
    c->packing = calloc(1, packing->state_bytes);
    return c->packing ? SAC_OK
                      : sac_fail(err, SAC_NO_MEMORY, "no memory for KV format %s", choice->format->name);
}

void sac_kv_cache_take(sac_kv_cache *c, sac_arena *device, sac_arena *host) {
    const sac_kv_packing *packing = c->choice.format->packing;
    size_t n_layers = (size_t)c->shape->n_layers;
    c->layer_rows = sac_arena_take(host, n_layers * sizeof *c->layer_rows);
    if (!c->pool || packing) c->data = sac_arena_take(device, n_layers * (packing ? rows_bytes(c, c->tail) : c->layer_bytes));
    if (packing) packing->take(c->packing, c->choice.p, c->shape, &(sac_memory){host, device});
}

void sac_kv_cache_lend(sac_kv_cache *c, sac_arena *device) {
    if (c->choice.format->packing) c->staging = sac_arena_take(device, c->layer_bytes);
}

void sac_kv_cache_free(sac_kv_cache *c) {
    sac_page_planes_free(&c->planes);
    free(c->packing);
    *c = (sac_kv_cache){0};
}

void sac_kv_cache_clear(sac_kv_cache *c) {
    const sac_kv_packing *packing = c->choice.format->packing;
    c->n_rows = 0;
    memset(c->layer_rows, 0, (size_t)c->shape->n_layers * sizeof *c->layer_rows);
    if (packing && packing->begin) packing->begin(c->packing);
}

static sac_kv_view view_of(const sac_kv_cache *c, uint8_t *data, int64_t capacity, int64_t n_rows) {
    if (c->pool && !sac_kv_cache_is_packed(c)) return sac_kv_paged_view(c, data, n_rows);
    return (sac_kv_view){
        .k = data,
        .v = data + rows_bytes(c, capacity) / 2,
        .dtype = c->dtype,
        .n_heads = c->shape->n_kv_heads,
        .head_dim = c->shape->head_dim,
        .n_rows = n_rows,
        .row_stride = c->shape->head_dim,
        .head_stride = capacity * c->shape->head_dim,
    };
}

static uint8_t *tail_data(const sac_kv_cache *c, int layer) {
    return c->data + (size_t)layer * rows_bytes(c, c->tail);
}

/* Where rows of a head begin. */
static uint8_t *row_at(const sac_kv_view *kv, void *k_or_v, int head, int64_t row) {
    return (uint8_t *)k_or_v +
           (size_t)(head * kv->head_stride + row * kv->row_stride) * sac_dtype_row_bytes(kv->dtype, 1);
}

/* Rows [first, first + n) of one view to rows [at, at + n) of another, head by head. */
static sac_status move_rows(const sac_kv_cache *c, const sac_stream *stream, const sac_kv_view *from,
                            int64_t first, const sac_kv_view *to, int64_t at, int64_t n) {
    const sac_device *d = c->shape->device;
    size_t n_bytes = (size_t)n * sac_dtype_row_bytes(from->dtype, from->head_dim);
    for (int h = 0; n > 0 && h < from->n_heads; h++) {
        void *k = row_at(to, to->k, h, at), *v = row_at(to, to->v, h, at);
        if (d) {
            SAC_TRY(d->copy(stream, k, row_at(from, from->k, h, first), n_bytes));
            SAC_TRY(d->copy(stream, v, row_at(from, from->v, h, first), n_bytes));
        } else {
            memcpy(k, row_at(from, from->k, h, first), n_bytes);
            memcpy(v, row_at(from, from->v, h, first), n_bytes);
        }
    }
    return SAC_OK;
}

void *sac_kv_cache_rows_at(const sac_kv_cache *c, int layer, bool values, int head, int64_t row) {
    const sac_kv_view kv = view_of(c, c->data + (size_t)layer * c->layer_bytes, c->capacity, c->n_rows);
    return row_at(&kv, values ? kv.v : kv.k, head, row);
}

sac_status sac_kv_cache_copy(sac_kv_cache *to, const sac_kv_cache *from, const sac_stream *stream, int64_t first,
                             int64_t n) {
    SAC_TRY(sac_kv_cache_make_room(to, stream, first + n, NULL));
    if (to->pool) return sac_kv_pages_copy(to, from, stream, first, n);
    for (int layer = 0; layer < to->shape->n_layers; layer++) {
        const sac_kv_view source = view_of(from, from->data + (size_t)layer * from->layer_bytes, from->capacity, 0),
                          rows = view_of(to, to->data + (size_t)layer * to->layer_bytes, to->capacity, 0);
        SAC_TRY(move_rows(to, stream, &source, first, &rows, first, n));
    }
    return SAC_OK;
}

size_t sac_kv_cache_block_bytes(const sac_kv_cache *c, int64_t n_block) {
    if (sac_kv_cache_is_packed(c)) return sac_kv_pages_packed_bytes(c);
    return (size_t)c->shape->n_layers * rows_bytes(c, n_block);
}

/* The rows of every head, one behind another as the block has them. Counts are not looked at: steps may be changing them. Heads,
 * keys and values, and layers lie at one distance from each other, in the cache as in the block. */
static sac_status exchange(const sac_kv_cache *c, const sac_stream *stream, int64_t first, int64_t n, uint8_t *block,
                           int64_t n_block, bool to_block) {
    const sac_device *d = c->shape->device;
    if (sac_kv_cache_is_packed(c)) return sac_kv_pages_exchange_packed(c, stream, block, to_block);
    if (c->pool) return sac_kv_pages_exchange(c, stream, first, n, block, n_block, to_block);
    const size_t row_bytes = sac_dtype_row_bytes(c->dtype, c->shape->head_dim), n_bytes = (size_t)n * row_bytes,
                 n_pieces = (size_t)c->shape->n_layers * 2 * (size_t)c->shape->n_kv_heads;
    const size_t there = (size_t)c->capacity * row_bytes, here = (size_t)n_block * row_bytes;
    uint8_t *rows = c->data + (size_t)first * row_bytes;
    if (d && d->move_pieces && there <= INT32_MAX) /* a pitch that every card takes */
        return to_block ? d->move_pieces(stream, block, here, rows, there, n_bytes, n_pieces)
                        : d->move_pieces(stream, rows, there, block, here, n_bytes, n_pieces);
    for (size_t i = 0; i < n_pieces; i++, rows += there, block += here) {
        void *to = to_block ? block : rows, *from = to_block ? rows : block;
        if (d)
            SAC_TRY((to_block ? d->download : d->upload)(stream, to, from, n_bytes));
        else
            memcpy(to, from, n_bytes);
    }
    return SAC_OK;
}

/* From a row to the next in a block: of one head, or in pages of all. */
static size_t block_row_bytes(const sac_kv_cache *c) {
    if (sac_kv_cache_is_packed(c)) return 0; /* it has no rows */
    return c->pool ? sac_kv_paged_row_bytes(c) : sac_dtype_row_bytes(c->dtype, c->shape->head_dim);
}

sac_status sac_kv_cache_to_block(const sac_kv_cache *c, const sac_stream *stream, int64_t first, int64_t n, uint8_t *block,
                                 int64_t at, int64_t n_block) {
    return exchange(c, stream, first, n, block + (size_t)at * block_row_bytes(c), n_block, true);
}

sac_status sac_kv_cache_from_block(sac_kv_cache *c, const sac_stream *stream, int64_t first, int64_t n, const uint8_t *block,
                                   int64_t at, int64_t n_block) {
    SAC_TRY(sac_kv_cache_make_room(c, stream, first + n, NULL));
    return exchange(c, stream, first, n, (uint8_t *)block + (size_t)at * block_row_bytes(c), n_block, false);
}

sac_kv_view sac_kv_cache_begin_step(sac_kv_cache *c, int layer, int64_t n, int64_t *past) {
    *past = c->layer_rows[layer];
    return sac_kv_cache_is_packed(c)
               ? view_of(c, tail_data(c, layer), c->tail, *past + n)
               : view_of(c, c->data + (size_t)layer * c->layer_bytes, c->capacity, *past + n);
}

sac_status sac_kv_cache_begin_layer(sac_kv_cache *c, const sac_ops *ops, const sac_stream *stream, int layer,
                                    int64_t n, sac_kv_view *rows, int64_t *past) {
    int64_t n_packed;
    *rows = sac_kv_cache_begin_step(c, layer, n, past);
    if (c->pool) SAC_TRY(sac_kv_pages_map_layer(c, stream, layer, *past + n));
    if (!sac_kv_cache_is_packed(c)) return SAC_OK;
    const sac_kv_view tail = *rows;
    *rows = view_of(c, c->staging, c->capacity, c->capacity);
    const sac_layer_attention a = {
        .ops = ops, .stream = stream, .shape = c->shape, .layer = layer, .kv = *rows};
    SAC_TRY(c->choice.format->packing->unpack(c->packing, &a, &n_packed));
    SAC_TRY(move_rows(c, stream, &tail, 0, rows, n_packed, *past));
    *past += n_packed;
    rows->n_rows = *past + n;
    return SAC_OK;
}

sac_status sac_kv_cache_end_layer(sac_kv_cache *c, const sac_layer_attention *a, int64_t n_rows,
                                  const sac_important *important) {
    const sac_kv_packing *packing = c->choice.format->packing;
    int64_t n_tail = c->layer_rows[a->layer];
    c->layer_rows[a->layer] = n_rows;
    if (!packing) return SAC_OK;
    SAC_TRY(packing->seal(c->packing, a, a->past - n_tail, n_tail, n_rows - a->past, important,
                          &c->layer_rows[a->layer]));
    sac_kv_view tail = view_of(c, tail_data(c, a->layer), c->tail, c->layer_rows[a->layer]);
    assert(tail.n_rows < c->tail);
    return move_rows(c, a->stream, &a->kv, n_rows - tail.n_rows, &tail, 0, tail.n_rows);
}

size_t sac_kv_cache_bytes_used(const sac_kv_cache *c) {
    size_t sum = 0;
    for (int layer = 0; layer < c->shape->n_layers; layer++) {
        sum += rows_bytes(c, c->layer_rows[layer]);
        if (sac_kv_cache_is_packed(c)) sum += c->choice.format->packing->bytes(c->packing, layer);
    }
    return sum;
}
