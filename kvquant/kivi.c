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
#include "kvquant.h"
#include "pack_rows.h"
#include "packed_step.h"

enum { BITS, GROUP, RESIDUAL };

static const sac_method_param params[] = {
    [BITS] = {"bits", 2, 2, 8, "of keys and values: 2, 4, 8", SAC_WHOLE},
    [GROUP] = {"group", 32, 16, 256, "tokens of a channel, or channels of a token, that share a range",
               SAC_WHOLE},
    [RESIDUAL] = {"residual", 128, 16, 1 << 20, "most recent tokens that stay plain, a multiple of group",
                  SAC_WHOLE},
    {0}};

typedef struct kivi_layer {
    sac_packed_rows part; /* n: tokens whose values are packed too */
    int64_t n_keys;       /* tokens whose keys are packed, n or more */
    int64_t n_dead;       /* tokens at the front of the tail that the part holds whole */
} kivi_layer;

typedef struct kivi {
    int64_t residual;
    int n_layers;
    kivi_layer *layer;
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
    k->n_layers = shape->n_layers;
    int group = (int)p[GROUP];
    int64_t n = (shape->n_ctx + k->residual - 1) / k->residual * k->residual;
    sac_packed_rows part = {.capacity = n,
                            .n_heads = shape->n_kv_heads,
                            .head_dim = shape->head_dim,
                            .bits = (int)p[BITS],
                            .k_group = group,
                            .v_group = group < shape->head_dim ? group : shape->head_dim};
    k->layer = sac_take_host(memory, (size_t)k->n_layers * sizeof *k->layer);
    for (int i = 0; i < k->n_layers; i++) {
        void *codes = sac_take_device(memory, sac_pack_bytes(&part));
        if (!codes || !k->layer) continue;
        k->layer[i] = (kivi_layer){.part = part};
        sac_pack_place(&k->layer[i].part, codes);
    }
    sac_packed_step_take(&k->step, shape, 1, false, memory);
    k->shed = sac_take_both(memory, (size_t)k->residual * sizeof(int32_t));
}

static void begin(void *state) {
    kivi *k = state;
    for (int i = 0; i < k->n_layers; i++) k->layer[i].part.n = k->layer[i].n_keys = k->layer[i].n_dead = 0;
}

/* One half of the packed rows: keys, or values. */
static sac_packed_rows half_of(sac_packed_rows p, bool keys, int64_t n) {
    if (keys)
        p.v = NULL;
    else
        p.k = NULL;
    p.n = n;
    return p;
}

/* Packed rows [row, end) back into the view, whose row 0 is token `first`. */
static sac_status restore(const sac_packed_rows *half, const sac_layer_attention *a, int64_t first,
                          int64_t row, int64_t end) {
    const sac_unpack_rows_args args = {
        .p = *half, .from = row, .kv = a->kv, .rows = {NULL, end - row, row - first, 1}};
    return end > row ? a->ops->unpack_rows(a->stream, &args) : SAC_OK;
}

/* With token `first` in the view's row 0: packs the keys or the values of tokens [row, end), and leaves them
 * rounded in the view. */
static sac_status pack_half(const sac_packed_rows *p, bool keys, const sac_layer_attention *a, int64_t first,
                            int64_t row, int64_t end) {
    const sac_packed_rows half = half_of(*p, keys, end);
    if (end <= row) return SAC_OK;
    SAC_TRY(a->ops->pack_rows(
        a->stream,
        &(sac_pack_rows_args){.p = half, .kv = a->kv, .rows = {NULL, end - row, row - first, 1}, .to = row}));
    return restore(&half, a, first, row, end);
}

static int64_t max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* The keys up to n_keys and the values up to n_values that are not packed yet. */
static sac_status pack_due(kivi_layer *l, const sac_layer_attention *a, int64_t first, int64_t n_keys,
                           int64_t n_values) {
    SAC_TRY(pack_half(&l->part, true, a, first, l->n_keys, n_keys));
    l->n_keys = max_i64(l->n_keys, n_keys);
    SAC_TRY(pack_half(&l->part, false, a, first, l->part.n, n_values));
    l->part.n = max_i64(l->part.n, n_values);
    return SAC_OK;
}

static sac_status seal(void *state, const sac_layer_attention *a, int64_t first, int64_t n_old, int64_t n_new,
                       const sac_important *important, int64_t *n_left) {
    kivi *k = state;
    kivi_layer *l = &k->layer[a->layer];
    int64_t n = first + n_old + n_new, n_values = max_i64(0, n - k->residual);
    (void)important;
    SAC_TRY(pack_due(l, a, 0, n / k->residual * k->residual, n_values));
    l->n_dead = 0;
    *n_left = n - n_values;
    return SAC_OK;
}

/* The tail follows, with the tokens that the part holds as well. */
static sac_status unpack(void *state, const sac_layer_attention *a, int64_t *n) {
    const kivi_layer *l = &((kivi *)state)->layer[a->layer];
    *n = l->part.n - l->n_dead;
    return restore(&l->part, a, 0, 0, *n);
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
    SAC_TRY(sac_packed_step_attend(&k->step, &live, &l->part, NULL, l->part.n > 0));
    int64_t first = l->part.n - l->n_dead, n = first + a->kv.n_rows;
    int64_t n_values = max_i64(0, n - k->residual);
    SAC_TRY(pack_due(l, a, first, n / k->residual * k->residual, n_values));
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
    const kivi_layer *l = &((const kivi *)state)->layer[layer];
    const sac_packed_rows *p = &l->part;
    size_t words = sac_packed_key_words(p->n_heads, p->head_dim, p->bits, l->n_keys) +
                   sac_packed_value_words(p->n_heads, p->head_dim, p->bits, p->n);
    int64_t key_ranges = l->n_keys / p->k_group * p->n_heads * p->head_dim;
    int64_t value_ranges = p->n * sac_packed_value_groups(p->n_heads, p->head_dim, p->v_group);
    return words * sizeof(uint32_t) + (size_t)(key_ranges + value_ranges) * 2 * sizeof(uint16_t);
}

static const sac_kv_packing packing = {.state_bytes = sizeof(kivi),
                                       .check = check,
                                       .is_off = is_off,
                                       .take = take,
                                       .begin = begin,
                                       .seal = seal,
                                       .unpack = unpack,
                                       .attend = attend,
                                       .n_tail_max = n_tail_max,
                                       .bytes = bytes};

const sac_kv_format sac_kv_kivi = {"kivi", "Liu et al., arXiv:2402.02750", SAC_DTYPE_F16, params, &packing};
