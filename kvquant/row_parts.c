#include "row_parts.h"

#include "pack_rows.h"

enum {
    STRETCH = 256,       /* rows that packed_attention takes at a time, but for ranges of channels of fewer */
    MOST_ON_DEVICE = 32, /* parts, which are one launch there */
    ALIGN = 64
};

static int64_t min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static size_t bytes_of(const sac_packed_rows *p) {
    return (sac_pack_bytes(p) + ALIGN - 1) / ALIGN * ALIGN;
}

static int64_t rows_of_part(const sac_row_parts *r, const sac_attention_shape *shape) {
    const int64_t step = r->like.k_group > 0 ? r->like.k_group : STRETCH;
    int64_t n = STRETCH;
    if (!r->planes) return r->capacity;
    const int64_t least = (r->capacity + MOST_ON_DEVICE - 1) / MOST_ON_DEVICE;
    if (shape->device && n < least) n = least;
    return min_i64((n + step - 1) / step * step, r->capacity);
}

/* Without memory. */
static sac_packed_rows part_of(const sac_row_parts *r, int64_t i) {
    sac_packed_rows p = r->like;
    p.capacity = min_i64(p.capacity, r->capacity - i * p.capacity);
    return p;
}

void sac_row_parts_take(sac_row_parts *r, const sac_attention_shape *shape, const sac_packed_rows *like, const sac_memory *memory) {
    *r = (sac_row_parts){.planes = r->planes, .like = *like, .capacity = like->capacity, .n_layers = shape->n_layers};
    r->like.capacity = rows_of_part(r, shape);
    r->most_parts = (r->capacity + r->like.capacity - 1) / r->like.capacity;
    const sac_packed_rows last = part_of(r, r->most_parts - 1);
    r->part_bytes = bytes_of(&r->like);
    r->all_bytes = (size_t)(r->most_parts - 1) * r->part_bytes + bytes_of(&last);
    const size_t n_layers = (size_t)r->n_layers;
    r->n = sac_take_host(memory, n_layers * sizeof *r->n);
    r->part = sac_take_host(memory, n_layers * sizeof *r->part);
    for (size_t i = 0; i < n_layers; i++) {
        sac_packed_rows *parts = sac_take_host(memory, (size_t)r->most_parts * sizeof *parts);
        void *codes = r->planes ? NULL : sac_take_device(memory, sac_pack_bytes(&r->like));
        if (!parts || !r->part) continue;
        r->part[i] = parts;
        for (int64_t k = 0; k < r->most_parts; k++) parts[k] = part_of(r, k);
        if (codes) sac_pack_place(parts, codes);
    }
}

void sac_row_parts_begin(sac_row_parts *r) {
    for (int i = 0; i < r->n_layers; i++) r->n[i] = 0;
}

/* ---------------------------------------------------------------- rows */

/* Whether rows [.., end) of a layer have memory. */
static bool has_room(const sac_row_parts *r, int layer, int64_t end) {
    if (end > r->capacity) return false;
    return !r->planes || sac_row_parts_bytes(r, end) <= r->planes->n_mapped[layer] * sac_page_pool_page_bytes(r->planes->pool);
}

static void place(sac_row_parts *r, int layer, int64_t i) {
    if (r->planes) sac_pack_place(&r->part[layer][i], r->planes->at + (size_t)layer * r->planes->plane_bytes + (size_t)i * r->part_bytes);
}

static sac_packed_rows half_of(sac_packed_rows p, sac_row_half half, int64_t n) {
    if (!(half & SAC_ROW_KEYS)) p.k = NULL;
    if (!(half & SAC_ROW_VALUES)) p.v = NULL;
    p.n = n;
    return p;
}

sac_status sac_row_parts_pack(sac_row_parts *r, const sac_layer_attention *a, sac_row_half half, int64_t first, int64_t to, int64_t n) {
    if (!has_room(r, a->layer, to + n)) return SAC_INTERNAL;
    for (int64_t m; n > 0; first += m, to += m, n -= m) {
        const int64_t i = to / r->like.capacity, at = to % r->like.capacity;
        m = min_i64(n, r->like.capacity - at);
        place(r, a->layer, i);
        SAC_TRY(a->ops->pack_rows(
            a->stream,
            &(sac_pack_rows_args){.p = half_of(r->part[a->layer][i], half, at + m), .kv = a->kv, .rows = {NULL, m, first, 1}, .to = at}));
    }
    return SAC_OK;
}

sac_status sac_row_parts_unpack(const sac_row_parts *r, const sac_layer_attention *a, sac_row_half half, int64_t from, int64_t first, int64_t n) {
    for (int64_t m; n > 0; first += m, from += m, n -= m) {
        const int64_t i = from / r->like.capacity, at = from % r->like.capacity;
        m = min_i64(n, r->like.capacity - at);
        SAC_TRY(a->ops->unpack_rows(
            a->stream,
            &(sac_unpack_rows_args){.p = half_of(r->part[a->layer][i], half, at + m), .from = at, .kv = a->kv, .rows = {NULL, m, first, 1}}));
    }
    return SAC_OK;
}

void sac_row_parts_count(sac_row_parts *r, int layer, int64_t n) {
    const int64_t rows = r->like.capacity;
    for (int64_t i = r->n[layer] / rows; i * rows < n; i++) r->part[layer][i].n = min_i64(rows, n - i * rows);
    r->n[layer] = n;
}

int sac_row_parts_n_parts(const sac_row_parts *r, int layer) {
    return (int)((r->n[layer] + r->like.capacity - 1) / r->like.capacity);
}

/* ---------------------------------------------------------------- in pages */

size_t sac_row_parts_bytes(const sac_row_parts *r, int64_t n) {
    const int64_t n_parts = (n + r->like.capacity - 1) / r->like.capacity;
    return n_parts < r->most_parts ? (size_t)n_parts * r->part_bytes : r->all_bytes;
}

void sac_row_parts_use(void *state, const sac_page_planes *planes) {
    ((sac_row_parts *)state)->planes = planes;
}

size_t sac_row_parts_most(const void *state) {
    return ((const sac_row_parts *)state)->all_bytes;
}
