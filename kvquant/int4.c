/* int4: every key and value row of a head with a range of its own, packed as it comes. The plain baseline;
 * the keys of it are what Twilight estimates with. */
#include "kvquant.h"
#include "pack_rows.h"
#include "packed_step.h"

enum { BITS };

static const sac_method_param params[] = {
    [BITS] = {"bits", 4, 2, 8, "of keys and values: 2, 4, 8", SAC_WHOLE}, {0}};

typedef struct int4 {
    int n_layers;
    sac_packed_rows *layer; /* [n_layers] */
    sac_packed_step step;
} int4;

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    (void)shape;
    if (p[BITS] != 2 && p[BITS] != 4 && p[BITS] != 8)
        return sac_fail(err, SAC_BAD_ARGUMENT, "KV format int4: bits=%g: give 2, 4 or 8", p[BITS]);
    return SAC_OK;
}

static void take(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory) {
    int4 *q = state;
    int64_t capacity = (shape->n_ctx + SAC_PACKED_TILE - 1) / SAC_PACKED_TILE * SAC_PACKED_TILE;
    sac_packed_rows part = {.capacity = capacity,
                            .n_heads = shape->n_kv_heads,
                            .head_dim = shape->head_dim,
                            .bits = (int)p[BITS],
                            .k_group = 0,
                            .v_group = shape->head_dim};
    q->n_layers = shape->n_layers;
    q->layer = sac_take_host(memory, (size_t)q->n_layers * sizeof *q->layer);
    for (int i = 0; i < q->n_layers; i++) {
        void *codes = sac_take_device(memory, sac_pack_bytes(&part));
        if (!codes || !q->layer) continue;
        q->layer[i] = part;
        sac_pack_place(&q->layer[i], codes);
    }
    sac_packed_step_take(&q->step, shape, 1, false, memory);
}

static void begin(void *state) {
    int4 *q = state;
    for (int i = 0; i < q->n_layers; i++) q->layer[i].n = 0;
}

/* Rows [first, first + n) of the view, behind those that there are. */
static sac_status append(sac_packed_rows *p, const sac_layer_attention *a, int64_t first, int64_t n) {
    sac_packed_rows longer = *p;
    longer.n += n;
    SAC_TRY(a->ops->pack_rows(
        a->stream, &(sac_pack_rows_args){.p = longer, .kv = a->kv, .rows = {NULL, n, first, 1}, .to = p->n}));
    *p = longer;
    return SAC_OK;
}

static sac_status seal(void *state, const sac_layer_attention *a, int64_t first, int64_t n_old, int64_t n_new,
                       const sac_important *important, int64_t *n_left) {
    (void)important;
    *n_left = 0;
    return append(&((int4 *)state)->layer[a->layer], a, first, n_old + n_new);
}

static sac_status unpack(void *state, const sac_layer_attention *a, int64_t *n) {
    const sac_packed_rows *p = &((int4 *)state)->layer[a->layer];
    *n = p->n;
    return a->ops->unpack_rows(a->stream,
                               &(sac_unpack_rows_args){.p = *p, .kv = a->kv, .rows = {NULL, p->n, 0, 1}});
}

/* The step's own row is packed first: what it attends to is what later steps will. */
static sac_status attend(void *state, const sac_layer_attention *a, int64_t *n_tail) {
    int4 *q = state;
    sac_packed_rows *p = &q->layer[a->layer];
    sac_layer_attention packed = *a;
    SAC_TRY(append(p, a, 0, a->kv.n_rows));
    packed.kv.n_rows = 0;
    *n_tail = 0;
    return sac_packed_step_attend(&q->step, &packed, p, NULL, 1);
}

static int64_t n_tail_max(const double *p) {
    (void)p;
    return 1;
}

static size_t bytes(const void *state, int layer) {
    const sac_packed_rows *p = &((const int4 *)state)->layer[layer];
    size_t words = sac_packed_key_words(p->n_heads, p->head_dim, p->bits, p->n) +
                   sac_packed_value_words(p->n_heads, p->head_dim, p->bits, p->n);
    return words * sizeof(uint32_t) + 2 * (size_t)(p->n * p->n_heads) * 2 * sizeof(uint16_t);
}

static const sac_kv_packing packing = {.state_bytes = sizeof(int4),
                                       .check = check,
                                       .take = take,
                                       .begin = begin,
                                       .seal = seal,
                                       .unpack = unpack,
                                       .attend = attend,
                                       .n_tail_max = n_tail_max,
                                       .bytes = bytes};

const sac_kv_format sac_kv_int4 = {"int4", "a range a row and head", SAC_DTYPE_F16, params, &packing};
