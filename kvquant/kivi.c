/* kivi: keys by channel, values by token, and the most recent tokens plain.
 *
 * Source: Liu et al., "KIVI", arXiv:2402.02750, and its published code. With N tokens the first floor(N / R)
 * R keys are packed, each channel of G tokens with a range of its own; the first N - R values are, each G
 * channels of a token with one. Prompts attend at full precision; a step attends first and packs then.
 *
 * Tokens whose keys are packed and whose values are not yet stand in the plain tail, their keys already
 * rounded to what the packed ones say; the tail sheds tokens when it is twice R long. Models with grouped
 * heads want bits=4 (the authors' advice). */
#include "attend.h"
#include "packed_rows.h"
#include "packed_step.h"
#include "row_parts.h"

enum { BITS, GROUP, RESIDUAL };

static const sac_method_param params[] = {
    [BITS] = {"bits", 2, 2, 8, "of keys and values: 2, 4, 8", SAC_WHOLE},
    [GROUP] = {"group", 32, 16, 256, "tokens of a channel, or channels of a token, that share a range",
               SAC_WHOLE},
    [RESIDUAL] = {"residual", 128, 16, 1 << 20, "most recent tokens that stay plain, a multiple of group",
                  SAC_WHOLE},
    {0}};

typedef struct kivi_layer {
    int64_t n_keys; /* tokens whose keys are packed: as many as are counted, or more */
    int64_t n_dead; /* tokens at the front of the tail that are packed whole */
} kivi_layer;

typedef struct kivi {
    sac_row_parts rows; /* those are counted whose values are packed too */
    int64_t residual;
    kivi_layer *layer; /* [n_layers] */
    sac_packed_step step;
    sac_buffer shed; /* int32_t [residual] rows of the tail that stay when it sheds tokens */
} kivi;

static bool is_off(const double *p, const sac_attention_shape *shape) {
    return p[RESIDUAL] >= (double)shape->n_ctx;
}

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    (void)shape;
    if (p[BITS] != 2 && p[BITS] != 4 && p[BITS] != 8)
        return sac_fail(err, SAC_BAD_ARGUMENT, "KV format kivi: bits=%g: give 2, 4 or 8", p[BITS]);
    if ((int64_t)p[GROUP] % 16 || (int64_t)p[RESIDUAL] % (int64_t)p[GROUP])
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "KV format kivi: group=%g,residual=%g: give a multiple of 16, and a multiple of that",
                        p[GROUP], p[RESIDUAL]);
    return SAC_OK;
}

static void take(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory) {
    kivi *k = state;
    k->residual = (int64_t)p[RESIDUAL];
    int group = (int)p[GROUP];
    int64_t n = (shape->n_ctx + k->residual - 1) / k->residual * k->residual;
    sac_packed_rows part = {.capacity = n,
                            .n_heads = shape->n_kv_heads,
                            .head_dim = shape->head_dim,
                            .bits = (int)p[BITS],
                            .k_group = group,
                            .v_group = group < shape->head_dim ? group : shape->head_dim};
    k->layer = sac_take_host(memory, (size_t)shape->n_layers * sizeof *k->layer);
    sac_row_parts_take(&k->rows, shape, &part, memory);
    sac_packed_step_take(&k->step, shape, 1, false, memory);
    k->shed = sac_take_both(memory, (size_t)k->residual * sizeof(int32_t));
}

static void begin(void *state) {
    kivi *k = state;
    sac_row_parts_begin(&k->rows);
    for (int i = 0; i < k->rows.n_layers; i++) k->layer[i] = (kivi_layer){0};
}

/* With token `first` in the view's row 0: packs the keys or the values of tokens [row, end), and leaves them
 * rounded in the view. */
static sac_status pack_half(sac_row_parts *r, sac_row_half half, const sac_layer_attention *a, int64_t first, int64_t row, int64_t end) {
    if (end <= row) return SAC_OK;
    SAC_TRY(sac_row_parts_pack(r, a, half, row - first, row, end - row));
    return sac_row_parts_unpack(r, a, half, row, row - first, end - row);
}

static int64_t max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* The keys up to n_keys and the values up to n_values that are not packed yet. */
static sac_status pack_due(kivi *k, const sac_layer_attention *a, int64_t first, int64_t n_keys, int64_t n_values) {
    kivi_layer *l = &k->layer[a->layer];
    const int64_t had = k->rows.n[a->layer];
    SAC_TRY(pack_half(&k->rows, SAC_ROW_KEYS, a, first, l->n_keys, n_keys));
    l->n_keys = max_i64(l->n_keys, n_keys);
    SAC_TRY(pack_half(&k->rows, SAC_ROW_VALUES, a, first, had, n_values));
    sac_row_parts_count(&k->rows, a->layer, max_i64(had, n_values));
    return SAC_OK;
}

static sac_status seal(void *state, const sac_layer_attention *a, int64_t first, int64_t n_old, int64_t n_new,
                       const sac_important *important, int64_t *n_left) {
    kivi *k = state;
    int64_t n = first + n_old + n_new, n_values = max_i64(0, n - k->residual);
    (void)important;
    SAC_TRY(pack_due(k, a, 0, n / k->residual * k->residual, n_values));
    k->layer[a->layer].n_dead = 0;
    *n_left = n - n_values;
    return SAC_OK;
}

/* Tokens before the tail, in which those that are dead are packed as well. */
static int64_t n_before(const kivi *k, int layer) {
    return k->rows.n[layer] - k->layer[layer].n_dead;
}

static sac_status unpack(void *state, const sac_layer_attention *a, int64_t *n) {
    const kivi *k = state;
    *n = n_before(k, a->layer);
    return sac_row_parts_unpack(&k->rows, a, SAC_ROW_BOTH, 0, 0, *n);
}

/* The view without its first n rows. */
static sac_kv_view skip_rows(sac_kv_view kv, int64_t n) {
    size_t bytes = (size_t)(n * kv.row_stride) * sac_dtype_row_bytes(kv.dtype, 1);
    kv.k = (char *)kv.k + bytes;
    kv.v = (char *)kv.v + bytes;
    kv.n_rows -= n;
    return kv;
}

/* The n rows from `from` on to the front of the tail. */
static sac_status move_up(const kivi *k, const sac_layer_attention *a, int64_t from, int64_t n) {
    int32_t *rows = k->shed.host;
    for (int64_t i = 0; i < n; i++) rows[i] = (int32_t)(from + i);
    SAC_TRY(sac_send(a, k->shed, (size_t)n * sizeof *rows));
    return a->ops->keep_rows(a->stream, &(sac_keep_rows_args){a->kv, k->shed.device, n, 1});
}

static sac_status attend(void *state, const sac_layer_attention *a, int64_t *n_tail) {
    kivi *k = state;
    kivi_layer *l = &k->layer[a->layer];
    sac_layer_attention live = *a;
    live.kv = skip_rows(a->kv, l->n_dead);
    SAC_TRY(sac_packed_step_attend(&k->step, &live, k->rows.part[a->layer], NULL, sac_row_parts_n_parts(&k->rows, a->layer)));
    int64_t first = n_before(k, a->layer), n = first + a->kv.n_rows;
    int64_t n_values = max_i64(0, n - k->residual);
    SAC_TRY(pack_due(k, a, first, n / k->residual * k->residual, n_values));
    l->n_dead = n_values - first;
    *n_tail = a->kv.n_rows;
    if (a->kv.n_rows < 2 * k->residual) return SAC_OK;
    *n_tail = a->kv.n_rows - l->n_dead;
    SAC_TRY(move_up(k, a, l->n_dead, *n_tail));
    l->n_dead = 0;
    return SAC_OK;
}

static int64_t n_tail_max(const double *p) {
    return 2 * (int64_t)p[RESIDUAL];
}

/* Of what is in use; the tail's tokens that are packed already are counted by the cache as well. */
static size_t bytes(const void *state, int layer) {
    const kivi *k = state;
    const sac_packed_rows *p = &k->rows.like;
    const int64_t n_keys = k->layer[layer].n_keys, n_values = k->rows.n[layer];
    size_t words = sac_packed_key_words(p->n_heads, p->head_dim, p->bits, n_keys) +
                   sac_packed_value_words(p->n_heads, p->head_dim, p->bits, n_values);
    int64_t key_ranges = n_keys / p->k_group * p->n_heads * p->head_dim;
    int64_t value_ranges = n_values * sac_packed_value_groups(p->n_heads, p->head_dim, p->v_group);
    return words * sizeof(uint32_t) + (size_t)(key_ranges + value_ranges) * 2 * sizeof(uint16_t);
}

/* ---------------------------------------------------------------- in pages */

/* Keys come before values. */
static size_t used_bytes(const void *state, int layer) {
    const kivi *k = state;
    return layer < 0 ? 0 : sac_row_parts_bytes(&k->rows, k->layer[layer].n_keys);
}

static size_t room_bytes(const void *state, int layer, int64_t n) {
    const kivi *k = state;
    const int64_t all = n + (layer < 0 ? 0 : n_before(k, layer)), had = layer < 0 ? 0 : k->layer[layer].n_keys;
    return sac_row_parts_bytes(&k->rows, max_i64(had, all / k->residual * k->residual)) - used_bytes(state, layer);
}

static const sac_kv_in_planes in_planes = {
    .use = sac_row_parts_use, .most = sac_row_parts_most, .used = used_bytes, .room = room_bytes, .by_layer = true};

static const sac_kv_packing packing = {.state_bytes = sizeof(kivi),
                                       .check = check,
                                       .is_off = is_off,
                                       .take = take,
                                       .begin = begin,
                                       .seal = seal,
                                       .unpack = unpack,
                                       .attend = attend,
                                       .n_tail_max = n_tail_max,
                                       .bytes = bytes,
                                       .in_planes = &in_planes};

const sac_kv_format sac_kv_kivi = {"kivi", "Liu et al., arXiv:2402.02750", SAC_DTYPE_F16, params, &packing};
