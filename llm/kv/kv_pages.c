/* kv_pages.c - rows in pages: a plane for each layer, in which whole rows follow one another. */
#include "kv_pages.h"

#include <string.h>

enum {
    ROWS_BEHIND = 128, /* of the view, that a kernel's last tile of keys may touch */
    ROWS_NEAR = 32,    /* a step that comes so near to the end of what is there */
    ROWS_AHEAD = 96    /* asks for so many */
};

size_t sac_kv_paged_row_bytes(const sac_kv_cache *c) {
    return 2 * (size_t)c->shape->n_kv_heads * sac_dtype_row_bytes(c->dtype, c->shape->head_dim);
}

/* Of a layer's first n rows and what is touched behind them. */
static size_t bytes_for(const sac_kv_cache *c, int64_t n) {
    n = n + ROWS_BEHIND < c->capacity ? n + ROWS_BEHIND : c->capacity;
    return (size_t)n * sac_kv_paged_row_bytes(c);
}

sac_status sac_kv_cache_use_pages(sac_kv_cache *c, sac_page_pool *pool, sac_error *err) {
    if (sac_kv_cache_is_packed(c))
        return sac_fail(err, SAC_UNSUPPORTED,
                        "KV format %s packs rows in memory of its own: f32, f16 and bf16 can be in pages", c->choice.format->name);
    c->pool = pool;
    return SAC_OK;
}

sac_status sac_kv_cache_reserve(sac_kv_cache *c, sac_error *err) {
    if (!c->pool) return SAC_OK;
    SAC_TRY(sac_page_planes_reserve(&c->planes, c->pool, (size_t)c->shape->n_layers, c->layer_bytes, err));
    c->data = c->planes.at;
    c->layer_bytes = c->planes.plane_bytes;
    return SAC_OK;
}

size_t sac_kv_cache_paged_bytes(const sac_kv_cache *c, int64_t n_rows) {
    if (!c->pool) return 0;
    const size_t page = sac_page_pool_page_bytes(c->pool), n = n_rows > 0 ? bytes_for(c, n_rows) : 0;
    return (size_t)c->shape->n_layers * ((n + page - 1) / page * page);
}

sac_status sac_kv_cache_make_room(sac_kv_cache *c, const sac_stream *stream, int64_t n_rows, sac_error *err) {
    return c->pool && n_rows > 0 ? sac_page_planes_grow(&c->planes, stream, bytes_for(c, n_rows), err) : SAC_OK;
}

void sac_kv_cache_grow_ahead(sac_kv_cache *c, const sac_stream *stream) {
    if (c->pool && sac_kv_cache_lack(c, c->n_rows + ROWS_NEAR)) sac_kv_cache_make_room(c, stream, c->n_rows + ROWS_AHEAD, NULL);
}

size_t sac_kv_cache_lack(const sac_kv_cache *c, int64_t n_rows) {
    if (!c->pool || n_rows <= 0) return 0;
    return sac_page_planes_lack(&c->planes, bytes_for(c, n_rows)) * sac_page_pool_page_bytes(c->pool);
}

void sac_kv_cache_trim(sac_kv_cache *c, int64_t n_rows) {
    if (c->pool) sac_page_planes_shrink(&c->planes, n_rows > 0 ? bytes_for(c, n_rows) : 0);
}

sac_kv_view sac_kv_paged_view(const sac_kv_cache *c, uint8_t *data, int64_t n_rows) {
    return (sac_kv_view){
        .k = data,
        .v = data + sac_kv_paged_row_bytes(c) / 2,
        .dtype = c->dtype,
        .n_heads = c->shape->n_kv_heads,
        .head_dim = c->shape->head_dim,
        .n_rows = n_rows,
        .row_stride = 2 * (int64_t)c->shape->n_kv_heads * c->shape->head_dim,
        .head_stride = c->shape->head_dim,
    };
}

sac_status sac_kv_pages_copy(sac_kv_cache *to, const sac_kv_cache *from, const sac_stream *stream, int64_t first, int64_t n) {
    const sac_device *d = to->shape->device;
    const size_t row_bytes = sac_kv_paged_row_bytes(to), at = (size_t)first * row_bytes, n_bytes = (size_t)n * row_bytes;
    for (size_t layer = 0; n > 0 && layer < (size_t)to->shape->n_layers; layer++) {
        uint8_t *rows = to->data + layer * to->layer_bytes + at;
        const uint8_t *source = from->data + layer * from->layer_bytes + at;
        if (d)
            SAC_TRY(d->copy(stream, rows, source, n_bytes));
        else
            memcpy(rows, source, n_bytes);
    }
    return SAC_OK;
}

sac_status sac_kv_pages_exchange(const sac_kv_cache *c, const sac_stream *stream, int64_t first, int64_t n, uint8_t *block,
                                 int64_t n_block, bool to_block) {
    const sac_device *d = c->shape->device;
    const size_t row_bytes = sac_kv_paged_row_bytes(c), n_bytes = (size_t)n * row_bytes;
    uint8_t *rows = c->data + (size_t)first * row_bytes;
    for (int layer = 0; n > 0 && layer < c->shape->n_layers; layer++) {
        void *to = to_block ? block : rows, *from = to_block ? rows : block;
        if (d)
            SAC_TRY((to_block ? d->download : d->upload)(stream, to, from, n_bytes));
        else
            memcpy(to, from, n_bytes);
        rows += c->layer_bytes, block += (size_t)n_block * row_bytes;
    }
    return SAC_OK;
}
