/* kv_pages.c - rows in pages: a plane for each layer, in which whole rows follow one another. */
#include "kv_pages.h"

#include <string.h>

enum {
    ROWS_BEHIND = 128, /* of the view, that a kernel's last tile of keys may touch */
    ROWS_AHEAD = 256,  /* that steps have behind theirs, if the pool has as many */
    ROWS_SOON = 32     /* who has no more goes before others */
};

/* Of pages that a step maps for later ones: on an H200 2 MiB take 0.1 to 0.2 ms. More of many sessions, whose steps take longer. */
#define BYTES_BEHIND     ((size_t)16 << 20)
#define BYTES_BEHIND_ONE ((size_t)256 << 10)

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

sac_status sac_kv_pages_map_layer(sac_kv_cache *c, const sac_stream *stream, int layer, int64_t n) {
    return n > 0 ? sac_page_planes_map(&c->planes, stream, (size_t)layer, bytes_for(c, n), NULL) : SAC_OK;
}

sac_status sac_kv_cache_take_room(sac_kv_cache *c, int64_t n_rows, sac_error *err) {
    return c->pool && n_rows > 0 ? sac_page_planes_take(&c->planes, bytes_for(c, n_rows), err) : SAC_OK;
}

void sac_kv_caches_grow_ahead(sac_kv_cache *const *caches, int64_t n, const sac_stream *stream) {
    static const int64_t ahead[] = {ROWS_SOON, ROWS_AHEAD};
    const size_t of_all = (size_t)n * BYTES_BEHIND_ONE;
    size_t budget = of_all > BYTES_BEHIND ? of_all : BYTES_BEHIND;
    for (size_t k = 0; k < SAC_COUNT(ahead); k++)
        for (int64_t i = 0; i < n; i++)
            if (caches[i]->pool) sac_page_planes_grow_some(&caches[i]->planes, stream, bytes_for(caches[i], caches[i]->n_rows + ahead[k]), &budget);
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
