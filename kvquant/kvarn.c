/* kvarn: keys and values turned and evened out tile by tile, then rounded to a few bits; no calibration.
 *
 * Source: KVarN, arXiv:2606.03458. A tile is 128 tokens of a key-value head. Keys (after rope) and values are
 * multiplied by a Hadamard matrix over their channels, which spreads outlying channels over all. Then factors of
 * tokens and of channels are found in turns until both are spread evenly (even.h). Keys are rounded with
 * a range a channel and divided by a factor a token, values with a range a token and divided by a factor a
 * channel. A step turns the query once, and its output back once: turned products are the same products.
 *
 * The range that a channel of keys, or a token of values, is given by its smallest and largest number takes the
 * other factor in: packed rows with a range a channel over the tile's rows, and values with factors of channels,
 * are KVarN's codes. What they have no place for is the keys' factor a token, by which scores are multiplied.
 *
 * Ours: the first tile, which stands before everything (the sink), is packed in `first` bits and not left
 * plain; factors may be as small as e^-8, where the published code stops at e^-.3 and so cannot even out what is
 * small all over; scale and smallest number are halves rounded outwards, as in every packed format here. The tokens
 * behind the last whole tile stay plain.
 *
 * On a device a step over tiles and tail is one op. On the CPU it is those of packed rows, one after the other, with the
 * scores multiplied in between. */
#include "attend.h"
#include "clock.h"
#include "even_tiles.h"
#include "kvquant.h"
#include "measure.h"

enum { K, V, FIRST };
enum { TILE = SAC_EVEN_TILE, MOST_ON_DEVICE = 128 /* a tile of more has no room in a block of many cards */ };

static const sac_method_param params[] = {
    [K] = {"k", 4, 2, 8, "bits of keys: 2, 4, 8", SAC_WHOLE},
    [V] = {"v", 2, 2, 8, "bits of values: 2, 4, 8", SAC_WHOLE},
    [FIRST] = {"first", 8, 2, 8, "bits of both in the first 128 tokens: 2, 4, 8", SAC_WHOLE},
    {0}};

/* A layer's tiles, one part each: keys without values and values without keys, as their bits differ. */
typedef struct kvarn_layer {
    sac_packed_rows *keys, *values; /* [most tiles] */
    uint16_t **factor;              /* [most tiles] of keys: [n_kv_heads][TILE] halves */
    uint8_t *memory;                /* NULL where tiles are in planes */
    size_t used_bytes;
    int n_tiles;
} kvarn_layer;

typedef struct kvarn {
    const sac_page_planes *planes; /* that tiles are in, or NULL */
    int bits[2], first_bits, n_layers, n_heads, n_kv_heads, d;
    int64_t n_ctx, most_tiles;
    kvarn_layer *layer;
    /* Of steps on the CPU: */
    float *scores;             /* [n_heads][n_ctx] */
    float *q, *lse, *lse_tail; /* [n_heads * d], [n_heads] */
} kvarn;

static bool is_bits(double b) {
    return b == 2 || b == 4 || b == 8;
}

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    int d = shape->head_dim;
    if (!is_bits(p[K]) || !is_bits(p[V]) || !is_bits(p[FIRST]))
        return sac_fail(err, SAC_BAD_ARGUMENT, "KV format kvarn: k=%g,v=%g,first=%g: give 2, 4 or 8 for each",
                        p[K], p[V], p[FIRST]);
    if (d < 2 || (d & (d - 1)) != 0 || d > SAC_EVEN_MAX)
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "KV format kvarn turns heads by a Hadamard matrix, which it has for sizes that are powers of "
            "two up to %d: this model's are %d",
            SAC_EVEN_MAX, d);
    if (shape->device && shape->device->kind != SAC_DEVICE_CPU && d > MOST_ON_DEVICE)
        return sac_fail(err, SAC_UNSUPPORTED, "KV format kvarn turns heads of up to %d channels on a GPU: this model's are %d", MOST_ON_DEVICE, d);
    return SAC_OK;
}

/* ---------------------------------------------------------------- memory */

static size_t tile_bytes(const kvarn *v, bool is_first) {
    return is_first ? sac_even_tile_bytes(v->n_kv_heads, v->d, v->first_bits, v->first_bits)
                    : sac_even_tile_bytes(v->n_kv_heads, v->d, v->bits[0], v->bits[1]);
}

static size_t layer_bytes(const kvarn *v) {
    return tile_bytes(v, true) + (size_t)v->most_tiles * tile_bytes(v, false);
}

static void take(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory) {
    kvarn *v = state;
    *v = (kvarn){.planes = v->planes,
                 .bits = {(int)p[K], (int)p[V]},
                 .first_bits = (int)p[FIRST],
                 .n_layers = shape->n_layers,
                 .n_heads = shape->n_heads,
                 .n_kv_heads = shape->n_kv_heads,
                 .d = shape->head_dim,
                 .n_ctx = shape->n_ctx,
                 .most_tiles = shape->n_ctx / TILE};
    size_t n = (size_t)v->most_tiles + 1, heads = (size_t)v->n_heads, d = (size_t)v->d;
    v->layer = sac_take_host(memory, (size_t)v->n_layers * sizeof *v->layer);
    for (int i = 0; i < v->n_layers; i++) {
        kvarn_layer l = {.keys = sac_take_host(memory, n * sizeof *l.keys),
                         .values = sac_take_host(memory, n * sizeof *l.values),
                         .factor = sac_take_host(memory, n * sizeof *l.factor),
                         .memory = v->planes ? NULL : sac_take_device(memory, layer_bytes(v))};
        if (v->layer) v->layer[i] = l;
    }
    if (shape->device && shape->device->kind != SAC_DEVICE_CPU) return;
    v->scores = sac_take_device(memory, heads * (size_t)v->n_ctx * sizeof(float));
    v->q = sac_take_device(memory, heads * d * sizeof(float));
    v->lse = sac_take_device(memory, heads * sizeof(float));
    v->lse_tail = sac_take_device(memory, heads * sizeof(float));
}

static void begin(void *state) {
    kvarn *v = state;
    for (int i = 0; i < v->n_layers; i++) {
        v->layer[i].n_tiles = 0;
        v->layer[i].used_bytes = 0;
    }
}

/* Tiles [i, i + n) of a layer, all of the same bits: the first has bits of its own. */
static sac_even_tiles tiles_of(const kvarn *v, const kvarn_layer *l, int64_t i, int64_t n) {
    uint8_t *memory = v->planes ? v->planes->at + (size_t)(l - v->layer) * v->planes->plane_bytes : l->memory;
    const bool is_first = i == 0;
    return (sac_even_tiles){.at = memory + (is_first ? 0 : tile_bytes(v, true) + (size_t)(i - 1) * tile_bytes(v, false)),
                            .n = n,
                            .n_heads = v->n_kv_heads,
                            .head_dim = v->d,
                            .k_bits = is_first ? v->first_bits : v->bits[0],
                            .v_bits = is_first ? v->first_bits : v->bits[1]};
}

/* The first tile, or all others of n that begin with it. */
static sac_even_tiles run_of(const kvarn *v, const kvarn_layer *l, int run, int64_t n) {
    const int64_t n_first = n > 0;
    return run ? tiles_of(v, l, 1, n - n_first) : tiles_of(v, l, 0, n_first);
}

/* ---------------------------------------------------------------- tiles */

/* Whoever makes tiles has asked for their pages. */
static bool has_room(const kvarn *v, int layer, size_t n_bytes) {
    const kvarn_layer *l = &v->layer[layer];
    return !v->planes || l->used_bytes + n_bytes <= v->planes->n_mapped[layer] * sac_page_pool_page_bytes(v->planes->pool);
}

/* Rows [first, first + n * TILE) of a->kv as the layer's next tiles, which have the same bits. */
static sac_status add_run(kvarn *v, const sac_layer_attention *a, int64_t first, int64_t n) {
    kvarn_layer *l = &v->layer[a->layer];
    const sac_even_tiles tiles = tiles_of(v, l, l->n_tiles, n);
    const size_t n_bytes = (size_t)n * tile_bytes(v, l->n_tiles == 0);
    if (l->n_tiles + n > v->most_tiles || !has_room(v, a->layer, n_bytes)) return SAC_INTERNAL;
    for (int64_t i = 0; i < n; i++) {
        const sac_even_tile tile = sac_even_tile_at(&tiles, i);
        l->keys[l->n_tiles + i] = tile.keys;
        l->values[l->n_tiles + i] = tile.values;
        l->factor[l->n_tiles + i] = tile.factor;
    }
    SAC_TRY(a->ops->even_factors(a->stream, &(sac_even_factors_args){tiles, a->kv, first}));
    SAC_TRY(a->ops->pack_even(a->stream, &(sac_pack_even_args){tiles, a->kv, first}));
    l->n_tiles += (int)n;
    l->used_bytes += n_bytes;
    return SAC_OK;
}

static sac_status add_tiles(kvarn *v, const sac_layer_attention *a, int64_t first, int64_t n) {
    if (n > 0 && v->layer[a->layer].n_tiles == 0) {
        SAC_TRY(add_run(v, a, first, 1));
        first += TILE, n--;
    }
    return n > 0 ? add_run(v, a, first, n) : SAC_OK;
}

static sac_status unpack(void *state, const sac_layer_attention *a, int64_t *n) {
    const kvarn *v = state;
    const kvarn_layer *l = &v->layer[a->layer];
    int64_t first = 0;
    for (int run = 0; run < SAC_EVEN_RUNS; run++) {
        const sac_even_tiles tiles = run_of(v, l, run, l->n_tiles);
        if (tiles.n > 0) SAC_TRY(a->ops->unpack_even(a->stream, &(sac_unpack_even_args){tiles, a->kv, first}));
        first += tiles.n * TILE;
    }
    *n = first;
    return SAC_OK;
}

static sac_status seal(void *state, const sac_layer_attention *a, int64_t first, int64_t n_old, int64_t n_new,
                       const sac_important *important, int64_t *n_left) {
    const int64_t n = n_old + n_new;
    (void)important;
    SAC_TRY(add_tiles(state, a, first, n / TILE));
    *n_left = n % TILE;
    return SAC_OK;
}

/* ---------------------------------------------------------------- a step */

static void turn_heads(const kvarn *v, float *x) {
    for (int h = 0; h < v->n_heads; h++) sac_even_turn(x + h * v->d, v->d);
}

/* Scores of turned and divided keys are multiplied by what these were divided by. */
static void multiply_scores(const kvarn *v, const kvarn_layer *l) {
    const int group = v->n_heads / v->n_kv_heads;
    for (int h = 0; h < v->n_heads; h++)
        for (int i = 0; i < l->n_tiles; i++) {
            const uint16_t *factor = l->factor[i] + h / group * TILE;
            float *scores = v->scores + h * v->n_ctx + (int64_t)i * TILE;
            for (int64_t j = 0; j < TILE; j++) scores[j] *= sac_f16_to_f32(factor[j]);
        }
}

/* The query's output over all tiles to v->q, with v->lse. */
static sac_status attend_tiles(kvarn *v, const sac_layer_attention *a) {
    const kvarn_layer *l = &v->layer[a->layer];
    sac_packed_attention_args args = {.q = v->q,
                                      .parts = l->keys,
                                      .n_parts = l->n_tiles,
                                      .n_heads = v->n_heads,
                                      .scale = a->scale,
                                      .scores = v->scores,
                                      .stride = v->n_ctx};
    memcpy(v->q, sac_mat_row_f32(a->q, 0), (size_t)(v->n_heads * v->d) * sizeof *v->q);
    turn_heads(v, v->q);
    SAC_TRY(a->ops->packed_attention(a->stream, &args));
    multiply_scores(v, l);
    args.o = v->q;
    args.parts = l->values;
    args.lse = v->lse;
    SAC_TRY(a->ops->packed_attention(a->stream, &args));
    turn_heads(v, v->q);
    return SAC_OK;
}

/* Tiles and tail, one after the other. */
static sac_status attend_apart(kvarn *v, const sac_layer_attention *a) {
    const int64_t n = a->kv.n_rows;
    const bool has_tiles = v->layer[a->layer].n_tiles > 0;
    if (has_tiles) SAC_TRY(attend_tiles(v, a));
    SAC_TRY(a->ops->attention(a->stream, &(sac_attention_args){.o = a->q,
                                                               .q = a->q,
                                                               .kv = a->kv,
                                                               .lse = v->lse_tail,
                                                               .n_q = 1,
                                                               .n_kv = n,
                                                               .first = n - 1,
                                                               .n_batch = 1,
                                                               .n_heads = v->n_heads,
                                                               .scale = a->scale}));
    if (!has_tiles) return SAC_OK;
    return a->ops->join_attention(a->stream,
                                  &(sac_join_attention_args){.o = a->q,
                                                             .other = sac_mat_f32(v->q, 1, (int64_t)v->n_heads * v->d),
                                                             .lse = v->lse_tail,
                                                             .other_lse = v->lse,
                                                             .n_heads = v->n_heads});
}

static sac_status attend_together(const kvarn *v, const sac_layer_attention *a) {
    const kvarn_layer *l = &v->layer[a->layer];
    sac_even_step_args args = {.q = a->q, .tail = a->kv, .n_heads = v->n_heads, .scale = a->scale};
    for (int run = 0; run < SAC_EVEN_RUNS; run++) args.tiles[run] = run_of(v, l, run, l->n_tiles);
    return a->ops->even_step(a->stream, &args);
}

static sac_status attend(void *state, const sac_layer_attention *a, int64_t *n_tail) {
    kvarn *v = state;
    int64_t start = sac_now_ns(), n = a->kv.n_rows, n_all = n + (int64_t)v->layer[a->layer].n_tiles * TILE;
    SAC_TRY(a->ops->fuses ? attend_together(v, a) : attend_apart(v, a));
    if (n_all == a->n_seen) sac_count_decode_mass(a, 1);
    sac_count_step(a, (double)n_all);
    a->stats->attend_ns += sac_now_ns() - start;
    *n_tail = n % TILE;
    return n == TILE ? add_tiles(v, a, 0, 1) : SAC_OK;
}

static int64_t n_tail_max(const double *p) {
    (void)p;
    return TILE;
}

static size_t bytes(const void *state, int layer) {
    return ((const kvarn *)state)->layer[layer].used_bytes;
}

/* ---------------------------------------------------------------- in pages */

static void use_planes(void *state, const sac_page_planes *planes) {
    ((kvarn *)state)->planes = planes;
}

static size_t most_bytes(const void *state) {
    return layer_bytes(state);
}

/* Whatever is left of a tile stays in the tail, and the first tile may be of more bits. */
static size_t room_bytes(const void *state, int layer, int64_t n) {
    const kvarn *v = state;
    (void)layer;
    const size_t first = tile_bytes(v, true), other = tile_bytes(v, false);
    return n < TILE ? 0 : (first > other ? first : other) + (size_t)(n / TILE - 1) * other;
}

static const sac_kv_in_planes in_planes = {.use = use_planes, .most = most_bytes, .used = bytes, .room = room_bytes};

static const sac_kv_packing packing = {.state_bytes = sizeof(kvarn),
                                       .check = check,
                                       .take = take,
                                       .begin = begin,
                                       .seal = seal,
                                       .unpack = unpack,
                                       .attend = attend,
                                       .n_tail_max = n_tail_max,
                                       .bytes = bytes,
                                       .in_planes = &in_planes};

const sac_kv_format sac_kv_kvarn = {"kvarn", "KVarN, arXiv:2606.03458", SAC_DTYPE_F16, params, &packing};
