/* kv_pages.c - rows in pages: a plane for each layer, in which whole rows follow one another, or what a packed format has of them. */
#include "kv_pages.h"

#include <assert.h>
#include <string.h>

enum {
    ROWS_BEHIND = 128, /* of the view, that a kernel's last tile of keys may touch */
    ROWS_AHEAD = 256,  /* that steps have behind theirs, if the pool has as many */
    ROWS_SOON = 32,    /* who has no more goes before others */
    BYTES_PAST = 32768 /* behind packed rows, that a kernel's last tile may touch on a card */
};

/* Of pages that a step maps for later ones: on an H200 2 MiB take 0.1 to 0.2 ms. More of many sessions, whose steps take longer. */
#define BYTES_BEHIND     ((size_t)16 << 20)
#define BYTES_BEHIND_ONE ((size_t)256 << 10)

size_t sac_kv_paged_row_bytes(const sac_kv_cache *c) {
    return 2 * (size_t)c->shape->n_kv_heads * sac_dtype_row_bytes(c->dtype, c->shape->head_dim);
}

static const sac_kv_in_planes *packed_of(const sac_kv_cache *c) {
    return sac_kv_cache_is_packed(c) ? c->choice.format->packing->in_planes : NULL;
}

static size_t bytes_past(const sac_kv_cache *c) {
    return c->shape->device ? BYTES_PAST : 0;
}

static size_t most_packed(const sac_kv_cache *c) {
    return packed_of(c)->most(c->packing) + bytes_past(c);
}

/* How many bits rows take is known once they are packed: until then as many as they can. */
static size_t packed_bytes(const sac_kv_cache *c, int64_t n) {
    const sac_kv_in_planes *in = packed_of(c);
    const size_t all = most_packed(c), anew = c->anew ? in->room(c->packing, -1, n) : 0;
    size_t most = 0, room = 0;
    int64_t room_of = -1; /* most layers have as many rows */
    for (int layer = 0; layer < c->shape->n_layers; layer++) {
        const int64_t rest = n - (c->n_rows - c->layer_rows[layer]); /* that are not packed yet */
        if (rest != room_of || in->by_layer) room = in->room(c->packing, layer, room_of = rest);
        const size_t n_bytes = in->used(c->packing, layer) + room;
        if (n_bytes > most) most = n_bytes;
    }
    most = (most > anew ? most : anew) + bytes_past(c);
    return most < all ? most : all;
}

/* Of a layer's first n rows and what is touched behind them. */
static size_t bytes_for(const sac_kv_cache *c, int64_t n) {
    if (packed_of(c)) return packed_bytes(c, n);
    n = n + ROWS_BEHIND < c->capacity ? n + ROWS_BEHIND : c->capacity;
    return (size_t)n * sac_kv_paged_row_bytes(c);
}

void sac_kv_cache_use_pages(sac_kv_cache *c, sac_page_pool *pool) {
    c->pool = pool;
    if (packed_of(c)) packed_of(c)->use(c->packing, &c->planes);
}

sac_status sac_kv_cache_reserve(sac_kv_cache *c, sac_error *err) {
    const bool packed = packed_of(c);
    if (!c->pool) return SAC_OK;
    SAC_TRY(sac_page_planes_reserve(&c->planes, c->pool, (size_t)c->shape->n_layers, packed ? most_packed(c) : c->layer_bytes, err));
    if (packed) return SAC_OK; /* data is the tails' */
    c->data = c->planes.at;
    c->layer_bytes = c->planes.plane_bytes;
    return SAC_OK;
}

size_t sac_kv_cache_paged_bytes(const sac_kv_cache *c, int64_t n_rows) {
    if (!c->pool) return 0;
    const size_t page = sac_page_pool_page_bytes(c->pool), n = n_rows <= 0 ? 0 : packed_of(c) ? most_packed(c) : bytes_for(c, n_rows);
    return (size_t)c->shape->n_layers * ((n + page - 1) / page * page);
}

/* Where rows are written next. */
static size_t written_bytes(const sac_kv_cache *c) {
    return (size_t)c->n_rows * sac_kv_paged_row_bytes(c);
}

/* Packed rows are nobody else's. */
bool sac_kv_cache_is_shared(const sac_kv_cache *c) {
    return c->pool && !packed_of(c) && sac_page_planes_is_shared(&c->planes, written_bytes(c));
}

static sac_status own(sac_kv_cache *c, const sac_stream *stream, sac_error *err) {
    return sac_kv_cache_is_shared(c) ? sac_page_planes_own(&c->planes, stream, written_bytes(c), err) : SAC_OK;
}

sac_status sac_kv_cache_make_room(sac_kv_cache *c, const sac_stream *stream, int64_t n_rows, sac_error *err) {
    if (!c->pool || n_rows <= 0) return SAC_OK;
    SAC_TRY(own(c, stream, err));
    return sac_page_planes_grow(&c->planes, stream, bytes_for(c, n_rows), err);
}

sac_status sac_kv_pages_map_layer(sac_kv_cache *c, const sac_stream *stream, int layer, int64_t n) {
    if (n <= 0) return SAC_OK;
    assert(!sac_kv_cache_is_shared(c));
    const size_t n_bytes = packed_of(c) ? c->planes.n_taken * sac_page_pool_page_bytes(c->pool) : bytes_for(c, n);
    return sac_page_planes_map(&c->planes, stream, (size_t)layer, n_bytes, NULL);
}

sac_status sac_kv_cache_take_room(sac_kv_cache *c, int64_t n_rows, sac_error *err) {
    if (!c->pool || n_rows <= 0) return SAC_OK;
    if (!c->shape->device) SAC_TRY(own(c, NULL, err)); /* there it takes a stream */
    return sac_page_planes_take(&c->planes, bytes_for(c, n_rows), err);
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
    const size_t n_bytes = bytes_for(c, n_rows), page = sac_page_pool_page_bytes(c->pool);
    return page * (packed_of(c) ? sac_page_planes_lack(&c->planes, n_bytes) : sac_page_planes_lack_behind(&c->planes, written_bytes(c), n_bytes));
}

/* ---------------------------------------------------------------- pages that several have */

int64_t sac_kv_cache_page_rows(const sac_kv_cache *c) {
    if (!c->pool || packed_of(c)) return 0;
    size_t page = sac_page_pool_page_bytes(c->pool), row = sac_kv_paged_row_bytes(c), a = page, b = row;
    while (b) {
        const size_t rest = a % b;
        a = b, b = rest;
    }
    return (int64_t)(page / a);
}

sac_status sac_kv_cache_share(sac_kv_cache *to, const sac_kv_cache *from, int64_t n, sac_error *err) {
    assert(to->pool == from->pool && n % sac_kv_cache_page_rows(to) == 0);
    return sac_page_planes_share(&to->planes, &from->planes, (size_t)n * sac_kv_paged_row_bytes(to), err);
}

bool sac_kv_cache_may_share(const sac_kv_cache *from, int64_t n) {
    return sac_page_planes_may_share(&from->planes, (size_t)n * sac_kv_paged_row_bytes(from));
}

uint64_t sac_kv_cache_page_of(const sac_kv_cache *c, int64_t row) {
    return sac_page_planes_page(&c->planes, (size_t)row * sac_kv_paged_row_bytes(c));
}

void sac_kv_cache_rename_from(sac_kv_cache *c, int64_t row) {
    if (c->pool && !packed_of(c)) sac_page_planes_rename(&c->planes, (size_t)row * sac_kv_paged_row_bytes(c));
}

int64_t sac_kv_cache_shared_rows(const sac_kv_cache *c) {
    const int64_t step = sac_kv_cache_page_rows(c);
    return step ? (int64_t)(sac_page_planes_shared(&c->planes) / sac_kv_paged_row_bytes(c)) / step * step : 0;
}

size_t sac_kv_cache_kept_bytes(const sac_kv_cache *c, int64_t n) {
    return c->planes.n_planes * (size_t)n * sac_kv_paged_row_bytes(c);
}

void sac_kv_cache_keep(sac_kv_cache *c, int64_t n) {
    if (c->pool) sac_page_planes_shrink(&c->planes, (size_t)n * sac_kv_paged_row_bytes(c));
}

/* ---------------------------------------------------------------- */

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
    if (from->planes.is_broken) return SAC_DEVICE;
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
    if (c->planes.is_broken) return SAC_DEVICE;
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

size_t sac_kv_pages_packed_bytes(const sac_kv_cache *c) {
    size_t sum = 0;
    for (int layer = 0; layer < c->shape->n_layers; layer++) sum += packed_of(c)->used(c->packing, layer);
    return sum;
}

sac_status sac_kv_pages_exchange_packed(const sac_kv_cache *c, const sac_stream *stream, uint8_t *block, bool to_block) {
    const sac_device *d = c->shape->device;
    for (int layer = 0; layer < c->shape->n_layers; layer++) {
        const size_t n_bytes = packed_of(c)->used(c->packing, layer);
        uint8_t *rows = c->planes.at + (size_t)layer * c->planes.plane_bytes;
        void *to = to_block ? block : rows, *from = to_block ? rows : block;
        if (!n_bytes) continue;
        if (d)
            SAC_TRY((to_block ? d->download : d->upload)(stream, to, from, n_bytes));
        else
            memcpy(to, from, n_bytes);
        block += n_bytes;
    }
    return SAC_OK;
}
