#include "blocks.h"

#include "attend.h"

#include <assert.h>

#define ALIGN 64

static size_t align(size_t n) {
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* A part of n rows of a tier, without memory. */
static sac_packed_rows part_of(const sac_kv_blocks *b, int tier, int64_t n) {
    return (sac_packed_rows){.n = n,
                             .capacity = n,
                             .n_heads = b->n_kv_heads,
                             .head_dim = b->head_dim,
                             .bits = b->bits[tier],
                             .k_group = b->k_group > 0 && b->k_group < n ? b->k_group : n,
                             .v_group = b->n_kv_heads * b->head_dim};
}

static size_t channel_bytes(const sac_kv_blocks *b) {
    return (size_t)b->n_kv_heads * (size_t)b->head_dim * sizeof(uint16_t);
}

/* Enough for n rows in so many blocks, all rows in the larger tier: codes and ranges grow with rows but for
 * what a block adds, which is measured on blocks of one row of each tier. */
static size_t bytes_of(const sac_kv_blocks *b, int64_t n, int64_t n_blocks) {
    int most = b->bits[0] > b->bits[1] ? 0 : 1;
    sac_packed_rows all = part_of(b, most, n), high = part_of(b, 0, 1), low = part_of(b, most, 1);
    if (b->bits[1]) low = part_of(b, 1, 1);
    size_t each = sac_pack_bytes(&high) + sac_pack_bytes(&low) + channel_bytes(b) + 3 * ALIGN;
    return sac_pack_bytes(&all) + (size_t)n_blocks * each;
}

static size_t layer_bytes(const sac_kv_blocks *b) {
    return bytes_of(b, b->n_ctx, b->max_blocks); /* blocks of the least size */
}

/* Of a layer: every block begins a byte of each head. */
static size_t bits_bytes(const sac_kv_blocks *b) {
    return (size_t)(b->n_ctx / 8 + b->max_blocks) * (size_t)b->n_kv_heads;
}

const char *const sac_kv_blocks_ropes[] = {"after", "before", NULL};

bool sac_kv_blocks_takes_group(double k_group) {
    return (int64_t)k_group % SAC_PACKED_TILE == 0;
}

void sac_kv_blocks_take(sac_kv_blocks *b, const sac_attention_shape *shape, int high, int low,
                        int64_t k_group, bool before_rope, const sac_memory *memory) {
    *b = (sac_kv_blocks){.planes = b->planes,
                         .step_rows = SAC_KV_BLOCK_MIN,
                         .n_layers = shape->n_layers,
                         .n_kv_heads = shape->n_kv_heads,
                         .head_dim = shape->head_dim,
                         .bits = {high, low},
                         .k_group = k_group,
                         .before_rope = before_rope,
                         .n_ctx = shape->n_ctx,
                         .max_blocks = shape->n_ctx / SAC_KV_BLOCK_MIN + 1};
    size_t n = (size_t)b->max_blocks, list = (size_t)b->n_kv_heads * (size_t)b->n_ctx * sizeof(int32_t);
    b->memory_bytes = layer_bytes(b);
    b->layer = sac_take_host(memory, (size_t)b->n_layers * sizeof *b->layer);
    for (int i = 0; i < b->n_layers; i++) {
        sac_kv_block_layer l = {.memory = b->planes ? NULL : sac_take_device(memory, b->memory_bytes),
                                .bits = sac_take_host(memory, bits_bytes(b)),
                                .part = sac_take_host(memory, 2 * n * sizeof *l.part),
                                .turned = before_rope ? sac_take_host(memory, 2 * n * sizeof *l.turned) : NULL,
                                .block = sac_take_host(memory, n * sizeof *l.block)};
        if (b->layer) b->layer[i] = l;
    }
    for (int tier = 0; tier < 2; tier++) b->list[tier] = sac_take_both(memory, list);
    if (before_rope) sac_unturned_take(&b->unturned, shape, 2 * b->max_blocks, memory);
}

void sac_kv_blocks_clear(sac_kv_blocks *b, int layer) {
    sac_kv_block_layer *l = &b->layer[layer];
    l->used_bytes = l->n_bits_bytes = l->n_bytes = 0;
    l->n_parts = l->n_blocks = 0;
    l->n_rows = 0;
    if (b->before_rope) sac_unturned_clear(&b->unturned, layer);
}

void sac_kv_blocks_begin(sac_kv_blocks *b) {
    for (int i = 0; i < b->n_layers; i++) sac_kv_blocks_clear(b, i);
}

/* ---------------------------------------------------------------- packing */

static uint8_t *memory_of(const sac_kv_blocks *b, int layer) {
    return b->planes ? b->planes->at + (size_t)layer * b->planes->plane_bytes : b->layer[layer].memory;
}

/* Of a layer, whether or not it is in use. */
static size_t room_of(const sac_kv_blocks *b, int layer) {
    return b->planes ? b->planes->n_mapped[layer] * sac_page_pool_page_bytes(b->planes->pool) : b->memory_bytes;
}

static void *carve(const sac_kv_blocks *b, int layer, size_t n_bytes) {
    sac_kv_block_layer *l = &b->layer[layer];
    assert(l->used_bytes + align(n_bytes) <= room_of(b, layer));
    void *p = memory_of(b, layer) + l->used_bytes;
    l->used_bytes += align(n_bytes);
    l->n_bytes += n_bytes;
    return p;
}

/* Of a block of these rows. */
static size_t block_bytes(const sac_kv_blocks *b, const sac_pack_rows set[2]) {
    size_t n_bytes = align(channel_bytes(b));
    for (int tier = 0; tier < 2; tier++) {
        if (set[tier].n == 0 || b->bits[tier] == 0) continue;
        const sac_packed_rows part = part_of(b, tier, set[tier].n);
        n_bytes += align(sac_pack_bytes(&part));
    }
    return n_bytes;
}

/* Rows of both tiers, [n_lists][..] counted from the block's first; returns how many are important. */
static int64_t list_rows(const sac_kv_blocks *b, int64_t n_old, int64_t n_new,
                         const sac_important *important) {
    int64_t n_high = n_old + important->n, n_low = n_new - important->n;
    for (int i = 0; i < important->n_lists; i++) {
        const int32_t *chosen = important->rows + i * important->n;
        int32_t *high = (int32_t *)b->list[0].host + i * n_high;
        int32_t *low = (int32_t *)b->list[1].host + i * n_low;
        int64_t at = 0;
        for (int64_t row = 0; row < n_old; row++) *high++ = (int32_t)row;
        for (int64_t row = 0; row < n_new; row++) {
            if (at < important->n && chosen[at] == row) {
                *high++ = (int32_t)(n_old + row);
                at++;
            } else {
                *low++ = (int32_t)(n_old + row);
            }
        }
        assert(at == important->n); /* ascending, each once, within the new rows */
    }
    return n_high;
}

/* Which of the block's n rows are in the lists of the first tier. */
static uint8_t *mark_rows(const sac_kv_blocks *b, sac_kv_block_layer *l, const sac_pack_rows *high,
                          int64_t n) {
    const int32_t *rows = b->list[0].host;
    size_t row_bytes = (size_t)(n + 7) / 8, n_bytes = (size_t)high->n_lists * row_bytes;
    uint8_t *bits = l->bits + l->n_bits_bytes;
    assert(l->n_bits_bytes + n_bytes <= bits_bytes(b));
    l->n_bits_bytes += n_bytes;
    l->n_bytes += n_bytes;
    memset(bits, 0, n_bytes);
    for (int i = 0; i < high->n_lists; i++)
        for (int64_t j = 0; j < high->n; j++) {
            int32_t row = rows[i * high->n + j];
            bits[(size_t)i * row_bytes + (size_t)row / 8] |= (uint8_t)(1u << row % 8);
        }
    return bits;
}

/* What becomes a block: its rows of a view, and, where keys are packed as they were before rope, these. */
typedef struct new_block {
    const sac_kv_view *rows;
    int64_t n, position; /* of its first row */
    sac_kv_view keys;    /* [n] rows */
} new_block;

/* Keys and values of one view in one go, or of two. */
static sac_status pack(sac_kv_blocks *b, const sac_layer_attention *a, const new_block *from, int tier,
                       const sac_packed_rows *p, const sac_pack_rows *set) {
    sac_kv_block_layer *l = &b->layer[a->layer];
    if (!b->before_rope)
        return a->ops->pack_rows(a->stream, &(sac_pack_rows_args){*p, *from->rows, *set, 0});
    sac_packed_rows keys = *p, values = *p;
    sac_pack_rows of_keys = *set;
    keys.v = NULL;
    values.k = NULL;
    of_keys.first = 0;
    SAC_TRY(sac_unturned_note(&b->unturned, a, from->position, from->n, set, set->rows ? b->list[tier].host : NULL,
                              &l->turned[l->n_parts]));
    l->n_bytes += (size_t)(set->n * set->n_lists + 1) * sizeof(int32_t);
    SAC_TRY(a->ops->pack_rows(a->stream, &(sac_pack_rows_args){keys, from->keys, of_keys, 0}));
    return a->ops->pack_rows(a->stream, &(sac_pack_rows_args){values, *from->rows, *set, 0});
}

/* *part is its number, or -1 where there is none. */
static sac_status add_part(sac_kv_blocks *b, const sac_layer_attention *a, const new_block *from, int tier,
                           const sac_pack_rows *rows, uint16_t *channel, int *part) {
    sac_kv_block_layer *l = &b->layer[a->layer];
    *part = -1;
    if (rows->n == 0 || b->bits[tier] == 0) return SAC_OK;
    sac_packed_rows *p = &l->part[l->n_parts];
    *p = part_of(b, tier, rows->n);
    p->v_channel = channel;
    sac_pack_place(p, carve(b, a->layer, sac_pack_bytes(p)));
    SAC_TRY(pack(b, a, from, tier, p, rows));
    l->n_rows += rows->n;
    *part = l->n_parts++;
    return SAC_OK;
}

/* The rows of both tiers: all in the first where nobody has an opinion. */
static sac_status split_rows(sac_kv_blocks *b, const sac_layer_attention *a, int64_t n_old, int64_t n_new,
                             const sac_important *important, sac_pack_rows set[2]) {
    if (!important || !important->rows) return SAC_OK;
    set[0].n = list_rows(b, n_old, n_new, important);
    set[1].n = n_old + n_new - set[0].n;
    for (int tier = 0; tier < 2; tier++) {
        set[tier].rows = b->list[tier].device;
        set[tier].n_lists = important->n_lists;
        SAC_TRY(sac_send(a, b->list[tier], (size_t)(set[tier].n * set[tier].n_lists) * sizeof(int32_t)));
    }
    return SAC_OK;
}

sac_status sac_kv_blocks_add(sac_kv_blocks *b, const sac_layer_attention *a, const sac_kv_view *rows,
                             int64_t first, int64_t n_old, int64_t n_new, const sac_important *important) {
    sac_kv_block_layer *l = &b->layer[a->layer];
    int64_t n = n_old + n_new;
    sac_pack_rows set[2] = {{NULL, n, first, 1}, {NULL, 0, first, 1}}, all = set[0];
    SAC_TRY(split_rows(b, a, n_old, n_new, important, set));
    if (l->n_blocks == b->max_blocks || l->n_rows + n > b->n_ctx) return SAC_INTERNAL;
    if (l->used_bytes + block_bytes(b, set) > room_of(b, a->layer)) return SAC_INTERNAL; /* nobody asked for room */
    new_block from = {rows, n, l->n_rows, *rows};
    if (b->before_rope) SAC_TRY(sac_unturned_keys(&b->unturned, a, rows, first, l->n_rows, n, &from.keys));
    sac_kv_block *block = &l->block[l->n_blocks++];
    *block = (sac_kv_block){.n = b->bits[1] ? n : set[0].n, .n_lists = set[0].n_lists};
    uint16_t *channel = carve(b, a->layer, channel_bytes(b));
    SAC_TRY(a->ops->pack_channels(a->stream,
                                  &(sac_pack_channels_args){channel, *rows, b->bits[1] ? all : set[0]}));
    if (set[0].n > 0 && set[1].n > 0 && b->bits[1]) block->high = mark_rows(b, l, &set[0], n);
    for (int tier = 0; tier < 2; tier++)
        SAC_TRY(add_part(b, a, &from, tier, &set[tier], channel, &block->part[tier]));
    return SAC_OK;
}

/* ---------------------------------------------------------------- unpacking */

static bool is_high(const sac_kv_block *block, int head, int64_t row) {
    if (!block->high) return block->part[0] >= 0;
    const uint8_t *bits = block->high + (block->n_lists > 1 ? head * ((block->n + 7) / 8) : 0);
    return bits[row / 8] >> row % 8 & 1;
}

/* Where the rows of both tiers lie in the block: list[tier], as long as the tier's part for every head. */
static sac_status list_places(const sac_kv_blocks *b, const sac_layer_attention *a,
                              const sac_kv_block *block) {
    int32_t *out[2] = {b->list[0].host, b->list[1].host};
    for (int head = 0; head < block->n_lists; head++)
        for (int64_t row = 0; row < block->n; row++) *out[!is_high(block, head, row)]++ = (int32_t)row;
    for (int tier = 0; tier < 2; tier++)
        SAC_TRY(sac_send(a, b->list[tier],
                         (size_t)(out[tier] - (int32_t *)b->list[tier].host) * sizeof(int32_t)));
    return SAC_OK;
}

/* To rows `first` .. of the view. */
static sac_status unpack_block(sac_kv_blocks *b, const sac_layer_attention *a,
                               const sac_kv_block *block, const sac_kv_view *rows, int64_t first) {
    const sac_kv_block_layer *l = &b->layer[a->layer];
    if (block->high) SAC_TRY(list_places(b, a, block));
    for (int tier = 0; tier < 2; tier++) {
        if (block->part[tier] < 0) continue;
        const sac_packed_rows *p = &l->part[block->part[tier]];
        const int32_t *places = block->high ? b->list[tier].device : NULL;
        SAC_TRY(a->ops->unpack_rows(
            a->stream,
            &(sac_unpack_rows_args){.p = *p, .kv = *rows, .rows = {places, p->n, first, block->n_lists}}));
    }
    return b->before_rope ? sac_unturned_turn(&b->unturned, a, rows, first, block->n) : SAC_OK;
}

sac_status sac_kv_blocks_unpack(sac_kv_blocks *b, const sac_layer_attention *a, const sac_kv_view *rows,
                                int64_t *n) {
    const sac_kv_block_layer *l = &b->layer[a->layer];
    *n = 0;
    for (int i = 0; i < l->n_blocks; i++) {
        SAC_TRY(unpack_block(b, a, &l->block[i], rows, *n));
        *n += l->block[i].n;
    }
    return SAC_OK;
}

/* A block whose rows are all in one tier has no lists of its own for the heads: they are the same. */
const int32_t *sac_kv_blocks_important(sac_kv_blocks *b, int layer, int64_t *n, int *n_lists) {
    const sac_kv_block_layer *l = &b->layer[layer];
    *n_lists = 1;
    *n = 0;
    for (int i = 0; i < l->n_blocks; i++) {
        if (l->block[i].n_lists > 1) *n_lists = l->block[i].n_lists;
        if (l->block[i].part[0] >= 0) *n += l->part[l->block[i].part[0]].n;
    }
    int32_t *out = b->list[0].host;
    for (int head = 0; head < *n_lists; head++)
        for (int64_t i = 0, first = 0; i < l->n_blocks; first += l->block[i++].n)
            for (int64_t row = 0; row < l->block[i].n; row++)
                if (is_high(&l->block[i], head, row)) *out++ = (int32_t)(first + row);
    return b->list[0].host;
}

/* ---------------------------------------------------------------- in pages */

static void use_planes(void *state, const sac_page_planes *planes) {
    ((sac_kv_blocks *)state)->planes = planes;
}

static size_t most_bytes(const void *state) {
    return ((const sac_kv_blocks *)state)->memory_bytes;
}

static size_t used_bytes(const void *state, int layer) {
    return ((const sac_kv_blocks *)state)->layer[layer].used_bytes;
}

/* A prompt is one block, with what the tail had; steps leave a block every step_rows. All of them packed anew as one block take no
 * more than apart. */
static size_t room_bytes(const void *state, int layer, int64_t n) {
    const sac_kv_blocks *b = state;
    (void)layer;
    return n < SAC_KV_BLOCK_MIN ? 0 : bytes_of(b, n, 1 + n / b->step_rows);
}

const sac_kv_in_planes sac_kv_blocks_in_planes = {.use = use_planes, .most = most_bytes, .used = used_bytes, .room = room_bytes};
