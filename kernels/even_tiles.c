#include "even_tiles.h"

#include "pack_rows.h"

enum { ROWS = SAC_EVEN_TILE };

static size_t key_bytes(int n_heads, int d, int bits) {
    return sac_packed_key_words(n_heads, d, bits, ROWS) * sizeof(uint32_t);
}
static size_t value_bytes(int n_heads, int d, int bits) {
    return sac_packed_value_words(n_heads, d, bits, ROWS) * sizeof(uint32_t);
}
static size_t halves_bytes(int n_heads, int n) {
    return (size_t)n_heads * (size_t)n * sizeof(uint16_t);
}

/* Scale, smallest number and factor: of keys a channel, a channel and a row; of values the other way. */
size_t sac_even_tile_bytes(int n_heads, int head_dim, int k_bits, int v_bits) {
    return key_bytes(n_heads, head_dim, k_bits) + value_bytes(n_heads, head_dim, v_bits) +
           3 * (halves_bytes(n_heads, ROWS) + halves_bytes(n_heads, head_dim));
}

static void *carve(uint8_t **at, size_t n_bytes) {
    void *p = *at;
    *at += n_bytes;
    return p;
}

sac_even_tile sac_even_tile_at(const sac_even_tiles *t, int64_t i) {
    const int heads = t->n_heads, d = t->head_dim;
    uint8_t *at = t->at + (size_t)i * sac_even_tile_bytes(heads, d, t->k_bits, t->v_bits);
    const sac_packed_rows part = {.n = ROWS, .capacity = ROWS, .n_heads = heads, .head_dim = d, .k_group = ROWS, .v_group = d};
    sac_even_tile tile = {.keys = part, .values = part};
    tile.keys.bits = t->k_bits, tile.values.bits = t->v_bits;
    tile.keys.k = carve(&at, key_bytes(heads, d, t->k_bits));
    tile.values.v = carve(&at, value_bytes(heads, d, t->v_bits));
    tile.keys.k_scale = carve(&at, halves_bytes(heads, d));
    tile.keys.k_min = carve(&at, halves_bytes(heads, d));
    tile.factor = carve(&at, halves_bytes(heads, ROWS));
    tile.values.v_scale = carve(&at, halves_bytes(heads, ROWS));
    tile.values.v_min = carve(&at, halves_bytes(heads, ROWS));
    tile.values.v_channel = carve(&at, halves_bytes(heads, d));
    return tile;
}

static bool is_bits(int b) {
    return b == 2 || b == 4 || b == 8;
}

bool sac_even_is_valid(const sac_even_tiles *t) {
    const int d = t->head_dim;
    return t->n >= 0 && t->n_heads > 0 && d > 1 && d <= SAC_EVEN_MAX && (d & (d - 1)) == 0 && is_bits(t->k_bits) &&
           is_bits(t->v_bits) && (uintptr_t)t->at % sizeof(uint32_t) == 0;
}

bool sac_even_fits(const sac_even_tiles *t, const sac_kv_view *kv, int64_t first) {
    return sac_even_is_valid(t) && kv->n_heads == t->n_heads && kv->head_dim == t->head_dim && first >= 0 &&
           first + t->n * ROWS <= kv->n_rows;
}

/* ---------------------------------------------------------------- a head of a tile */

/* Even tasks are keys, odd ones values. */
typedef struct head_task {
    sac_even_tile tile;
    bool values;
    int head;
    int64_t row; /* of the view */
} head_task;

static head_task task_at(const sac_even_tiles *t, int64_t first, int64_t task) {
    const int64_t of_head = task / 2, i = of_head / t->n_heads;
    return (head_task){sac_even_tile_at(t, i), task % 2, (int)(of_head % t->n_heads), first + i * ROWS};
}

/* The factors of the head: of rows for keys, of channels for values. */
static uint16_t *factors_of(const head_task *h, int d) {
    return h->values ? h->tile.values.v_channel + h->head * d : h->tile.factor + h->head * ROWS;
}

/* The head's rows, turned: x [ROWS][d]. */
static void load_turned(const head_task *h, const sac_kv_view *kv, float *x) {
    for (int64_t i = 0; i < ROWS; i++) {
        float *row = x + i * kv->head_dim;
        sac_kv_load(kv, h->values ? kv->v : kv->k, h->head, h->row + i, row);
        sac_even_turn(row, kv->head_dim);
    }
}

void sac_even_find(const sac_even_tiles *t, const sac_kv_view *kv, int64_t first, int64_t task, float *scratch) {
    const head_task h = task_at(t, first, task);
    const int d = t->head_dim;
    float *x = scratch, *other = x + ROWS * d, *factor = other + ROWS * d;
    uint16_t *halves = factors_of(&h, d);
    load_turned(&h, kv, x);
    sac_even_factors(x, ROWS, d, !h.values, other, factor);
    for (int i = 0; i < (h.values ? d : ROWS); i++) halves[i] = sac_f32_to_f16(factor[i]);
}

/* The head alone, as parts of packed rows are. */
static sac_packed_rows part_of(const head_task *h, int d) {
    sac_packed_rows p = h->values ? h->tile.values : h->tile.keys;
    p.n_heads = 1;
    if (h->values) {
        p.v += (size_t)h->head * sac_packed_value_words(1, d, p.bits, ROWS);
        p.v_scale += h->head * ROWS, p.v_min += h->head * ROWS, p.v_channel += h->head * d;
    } else {
        p.k += (size_t)h->head * sac_packed_key_words(1, d, p.bits, ROWS);
        p.k_scale += h->head * d, p.k_min += h->head * d;
    }
    return p;
}

void sac_even_pack(const sac_even_tiles *t, const sac_kv_view *kv, int64_t first, int64_t task, float *scratch) {
    const head_task h = task_at(t, first, task);
    const int d = t->head_dim;
    const uint16_t *factor = factors_of(&h, d);
    const sac_packed_rows p = part_of(&h, d);
    const sac_kv_view view = {.k = scratch, .v = scratch, .dtype = SAC_DTYPE_F32, .n_heads = 1, .head_dim = d, .n_rows = ROWS, .row_stride = d};
    const sac_pack_rows rows = {NULL, ROWS, 0, 1};
    load_turned(&h, kv, scratch);
    for (int64_t i = 0; i < ROWS && !h.values; i++)
        for (int c = 0; c < d; c++) scratch[i * d + c] /= sac_f16_to_f32(factor[i]);
    if (h.values)
        sac_pack_values(&p, 0, &view, &rows); /* which divides by what channels have */
    else
        sac_pack_keys(&p, 0, &view, &rows);
}

void sac_even_unpack(const sac_even_tiles *t, const sac_kv_view *kv, int64_t first, int64_t task, float *scratch) {
    const head_task h = task_at(t, first, task);
    const int d = t->head_dim;
    const uint16_t *factor = factors_of(&h, d);
    const sac_packed_rows p = part_of(&h, d);
    for (int64_t i = 0; i < ROWS; i++) {
        if (h.values)
            sac_packed_get_value(&p, 0, i, scratch);
        else
            sac_packed_get_key(&p, 0, i, scratch);
        for (int c = 0; c < d && !h.values; c++) scratch[c] *= sac_f16_to_f32(factor[i]);
        sac_even_turn(scratch, d);
        sac_kv_save(kv, h.values ? kv->v : kv->k, h.head, h.row + i, scratch);
    }
}
