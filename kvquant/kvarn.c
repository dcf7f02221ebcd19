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
 * The factors are found by the host, so this format is the CPU's. */
#include "attend.h"
#include "clock.h"
#include "even.h"
#include "kvquant.h"
#include "measure.h"
#include "pack_rows.h"

enum { K, V, FIRST };
enum { TILE = 128 };

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
    float *turned;             /* [2][n_kv_heads][TILE][d] a tile's keys and values */
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
    if (shape->device && shape->device->kind != SAC_DEVICE_CPU)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "KV format kvarn finds its factors on the processor: use --device cpu, or kivi");
    return SAC_OK;
}

/* ---------------------------------------------------------------- memory */

static size_t range_bytes(const kvarn *v, int64_t n_across) {
    return (size_t)(v->n_kv_heads * n_across) * sizeof(uint16_t);
}

/* Scale, smallest number and factor: of keys a channel, a channel and a token; of values the other way. */
static size_t tile_bytes(const kvarn *v, int k_bits, int v_bits) {
    size_t words = sac_packed_key_words(v->n_kv_heads, v->d, k_bits, TILE) +
                   sac_packed_value_words(v->n_kv_heads, v->d, v_bits, TILE);
    return words * sizeof(uint32_t) + 3 * (range_bytes(v, TILE) + range_bytes(v, v->d));
}

static size_t layer_bytes(const kvarn *v) {
    size_t first = tile_bytes(v, v->first_bits, v->first_bits), other = tile_bytes(v, v->bits[0], v->bits[1]);
    return first + (size_t)v->most_tiles * other;
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
    v->turned = sac_take_device(memory, 2 * (size_t)v->n_kv_heads * TILE * d * sizeof(float));
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

static void *carve(const kvarn *v, kvarn_layer *l, size_t n_bytes) {
    uint8_t *memory = v->planes ? v->planes->at + (size_t)(l - v->layer) * v->planes->plane_bytes : l->memory;
    void *p = memory + l->used_bytes;
    l->used_bytes += n_bytes;
    return p;
}

/* A tile's parts, without numbers. */
static void place_tile(const kvarn *v, kvarn_layer *l) {
    const bool is_first = l->n_tiles == 0;
    int k_bits = is_first ? v->first_bits : v->bits[0], v_bits = is_first ? v->first_bits : v->bits[1];
    sac_packed_rows part = {.n = TILE,
                            .capacity = TILE,
                            .n_heads = v->n_kv_heads,
                            .head_dim = v->d,
                            .k_group = TILE,
                            .v_group = v->d};
    sac_packed_rows *keys = &l->keys[l->n_tiles], *values = &l->values[l->n_tiles];
    *keys = *values = part;
    keys->bits = k_bits, values->bits = v_bits;
    keys->k = carve(v, l, sac_packed_key_words(v->n_kv_heads, v->d, k_bits, TILE) * sizeof(uint32_t));
    values->v = carve(v, l, sac_packed_value_words(v->n_kv_heads, v->d, v_bits, TILE) * sizeof(uint32_t));
    keys->k_scale = carve(v, l, range_bytes(v, v->d));
    keys->k_min = carve(v, l, range_bytes(v, v->d));
    l->factor[l->n_tiles] = carve(v, l, range_bytes(v, TILE));
    values->v_scale = carve(v, l, range_bytes(v, TILE));
    values->v_min = carve(v, l, range_bytes(v, TILE));
    values->v_channel = carve(v, l, range_bytes(v, v->d));
}

/* ---------------------------------------------------------------- a tile */

static float *turned_rows(const kvarn *v, bool values, int head) {
    return v->turned + ((values ? v->n_kv_heads : 0) + head) * TILE * v->d;
}
static sac_kv_view turned_view(const kvarn *v) {
    return (sac_kv_view){.k = v->turned,
                         .v = turned_rows(v, true, 0),
                         .dtype = SAC_DTYPE_F32,
                         .n_heads = v->n_kv_heads,
                         .head_dim = v->d,
                         .n_rows = TILE,
                         .row_stride = v->d,
                         .head_stride = (int64_t)TILE * v->d};
}

typedef struct tile_job {
    const kvarn *v;
    const sac_layer_attention *a;
    kvarn_layer *l;
    int64_t first; /* row of a->kv */
    int tile;
} tile_job;

/* A head's keys (even tasks) or values (odd ones): turned, keys divided by their factors. */
static void even_task(void *ctx, int64_t task, int thread) {
    const tile_job *job = ctx;
    const kvarn *v = job->v;
    const sac_kv_view *kv = &job->a->kv;
    const bool values = task % 2;
    const int head = (int)(task / 2);
    float *x = turned_rows(v, values, head), *scratch = sac_stream_thread_scratch(job->a->stream, thread);
    float *factor = scratch + TILE * v->d;
    for (int64_t i = 0; i < TILE; i++) {
        sac_kv_load(kv, values ? kv->v : kv->k, head, job->first + i, x + i * v->d);
        sac_even_turn(x + i * v->d, v->d);
    }
    sac_even_factors(x, TILE, v->d, !values, scratch, factor);
    uint16_t *halves =
        values ? job->l->values[job->tile].v_channel + head * v->d : job->l->factor[job->tile] + head * TILE;
    for (int64_t i = 0; i < (values ? v->d : TILE); i++) halves[i] = sac_f32_to_f16(factor[i]);
    for (int64_t i = 0; i < TILE && !values; i++)
        for (int c = 0; c < v->d; c++) x[i * v->d + c] /= sac_f16_to_f32(halves[i]);
}

/* Rows [first, first + TILE) of a->kv as the layer's next tile. */
/* Whoever makes a tile has asked for its pages. */
static bool has_room(const kvarn *v, int layer) {
    const kvarn_layer *l = &v->layer[layer];
    const size_t n_bytes = l->n_tiles ? tile_bytes(v, v->bits[0], v->bits[1]) : tile_bytes(v, v->first_bits, v->first_bits);
    return !v->planes || l->used_bytes + n_bytes <= v->planes->n_mapped[layer] * sac_page_pool_page_bytes(v->planes->pool);
}

static sac_status add_tile(kvarn *v, const sac_layer_attention *a, int64_t first) {
    kvarn_layer *l = &v->layer[a->layer];
    if (l->n_tiles >= v->most_tiles || !has_room(v, a->layer)) return SAC_INTERNAL;
    tile_job job = {v, a, l, first, l->n_tiles};
    const sac_pack_rows rows = {NULL, TILE, 0, 1};
    place_tile(v, l);
    sac_pool_run(a->stream->pool, 2 * v->n_kv_heads, even_task, &job);
    const sac_kv_view view = turned_view(v);
    SAC_TRY(a->ops->pack_rows(a->stream,
                              &(sac_pack_rows_args){.p = l->keys[job.tile], .kv = view, .rows = rows}));
    SAC_TRY(a->ops->pack_rows(a->stream,
                              &(sac_pack_rows_args){.p = l->values[job.tile], .kv = view, .rows = rows}));
    l->n_tiles++;
    return SAC_OK;
}

static void restore_task(void *ctx, int64_t task, int thread) {
    const tile_job *job = ctx;
    const kvarn *v = job->v;
    const sac_kv_view *kv = &job->a->kv;
    const bool values = task % 2;
    const int head = (int)(task / 2);
    float *x = turned_rows(v, values, head);
    const uint16_t *factor = job->l->factor[job->tile] + head * TILE;
    (void)thread;
    for (int64_t i = 0; i < TILE; i++, x += v->d) {
        for (int c = 0; c < v->d && !values; c++) x[c] *= sac_f16_to_f32(factor[i]);
        sac_even_turn(x, v->d);
        sac_kv_save(kv, values ? kv->v : kv->k, head, job->first + i, x);
    }
}

static sac_status unpack(void *state, const sac_layer_attention *a, int64_t *n) {
    kvarn *v = state;
    kvarn_layer *l = &v->layer[a->layer];
    const sac_pack_rows rows = {NULL, TILE, 0, 1};
    *n = (int64_t)l->n_tiles * TILE;
    for (int i = 0; i < l->n_tiles; i++) {
        tile_job job = {v, a, l, (int64_t)i * TILE, i};
        const sac_kv_view view = turned_view(v);
        SAC_TRY(a->ops->unpack_rows(a->stream,
                                    &(sac_unpack_rows_args){.p = l->keys[i], .kv = view, .rows = rows}));
        SAC_TRY(a->ops->unpack_rows(a->stream,
                                    &(sac_unpack_rows_args){.p = l->values[i], .kv = view, .rows = rows}));
        sac_pool_run(a->stream->pool, 2 * v->n_kv_heads, restore_task, &job);
    }
    return SAC_OK;
}

static sac_status seal(void *state, const sac_layer_attention *a, int64_t first, int64_t n_old, int64_t n_new,
                       const sac_important *important, int64_t *n_left) {
    int64_t n = n_old + n_new;
    (void)important;
    for (; n >= TILE; n -= TILE, first += TILE) SAC_TRY(add_tile(state, a, first));
    *n_left = n;
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

static sac_status attend(void *state, const sac_layer_attention *a, int64_t *n_tail) {
    kvarn *v = state;
    const kvarn_layer *l = &v->layer[a->layer];
    int64_t start = sac_now_ns(), n = a->kv.n_rows, n_all = n + (int64_t)l->n_tiles * TILE;
    if (l->n_tiles > 0) SAC_TRY(attend_tiles(v, a));
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
    if (l->n_tiles > 0)
        SAC_TRY(a->ops->join_attention(
            a->stream, &(sac_join_attention_args){.o = a->q,
                                                  .other = sac_mat_f32(v->q, 1, (int64_t)v->n_heads * v->d),
                                                  .lse = v->lse_tail,
                                                  .other_lse = v->lse,
                                                  .n_heads = v->n_heads}));
    if (n_all == a->n_seen) sac_count_decode_mass(a, 1);
    sac_count_step(a, (double)n_all);
    a->stats->attend_ns += sac_now_ns() - start;
    *n_tail = n % TILE;
    return n == TILE ? add_tile(v, a, 0) : SAC_OK;
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
    const size_t first = tile_bytes(v, v->first_bits, v->first_bits), other = tile_bytes(v, v->bits[0], v->bits[1]);
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
