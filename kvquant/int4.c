/* int4: every key and value row of a head with a range of its own, packed as it comes. The plain baseline;
 * the keys of it are what Twilight estimates with. */
#include "packed_rows.h"
#include "packed_step.h"
#include "row_parts.h"

enum { BITS };

static const sac_method_param params[] = {
    [BITS] = {"bits", 4, 2, 8, "of keys and values: 2, 4, 8", SAC_WHOLE}, {0}};

typedef struct int4 {
    sac_row_parts rows; /* all that there are are counted */
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
    sac_row_parts_take(&q->rows, shape, &part, memory);
    sac_packed_step_take(&q->step, shape, 1, false, memory);
}

static void begin(void *state) {
    sac_row_parts_begin(&((int4 *)state)->rows);
}

/* Rows [first, first + n) of the view, behind those that there are. */
static sac_status append(int4 *q, const sac_layer_attention *a, int64_t first, int64_t n) {
    const int64_t to = q->rows.n[a->layer];
    SAC_TRY(sac_row_parts_pack(&q->rows, a, SAC_ROW_BOTH, first, to, n));
    sac_row_parts_count(&q->rows, a->layer, to + n);
    return SAC_OK;
}

static sac_status seal(void *state, const sac_layer_attention *a, int64_t first, int64_t n_old, int64_t n_new,
                       const sac_important *important, int64_t *n_left) {
    (void)important;
    *n_left = 0;
    return append(state, a, first, n_old + n_new);
}

static sac_status unpack(void *state, const sac_layer_attention *a, int64_t *n) {
    const sac_row_parts *r = &((int4 *)state)->rows;
    *n = r->n[a->layer];
    return sac_row_parts_unpack(r, a, SAC_ROW_BOTH, 0, 0, *n);
}

/* The step's own row is packed first: what it attends to is what later steps will. */
static sac_status attend(void *state, const sac_layer_attention *a, int64_t *n_tail) {
    int4 *q = state;
    sac_layer_attention packed = *a;
    SAC_TRY(append(q, a, 0, a->kv.n_rows));
    packed.kv.n_rows = 0;
    *n_tail = 0;
    return sac_packed_step_attend(&q->step, &packed, q->rows.part[a->layer], NULL, sac_row_parts_n_parts(&q->rows, a->layer));
}

static int64_t n_tail_max(const double *p) {
    (void)p;
    return 1;
}

static size_t bytes(const void *state, int layer) {
    const sac_row_parts *r = &((const int4 *)state)->rows;
    const sac_packed_rows *p = &r->like;
    const int64_t n = r->n[layer];
    size_t words = sac_packed_key_words(p->n_heads, p->head_dim, p->bits, n) +
                   sac_packed_value_words(p->n_heads, p->head_dim, p->bits, n);
    return words * sizeof(uint32_t) + 2 * (size_t)(n * p->n_heads) * 2 * sizeof(uint16_t);
}

/* ---------------------------------------------------------------- in pages */

static size_t used_bytes(const void *state, int layer) {
    const sac_row_parts *r = &((const int4 *)state)->rows;
    return layer < 0 ? 0 : sac_row_parts_bytes(r, r->n[layer]);
}

static size_t room_bytes(const void *state, int layer, int64_t n) {
    const sac_row_parts *r = &((const int4 *)state)->rows;
    return sac_row_parts_bytes(r, n + (layer < 0 ? 0 : r->n[layer])) - used_bytes(state, layer);
}

static const sac_kv_in_planes in_planes = {
    .use = sac_row_parts_use, .most = sac_row_parts_most, .used = used_bytes, .room = room_bytes, .by_layer = true};

static const sac_kv_packing packing = {.state_bytes = sizeof(int4),
                                       .check = check,
                                       .take = take,
                                       .begin = begin,
                                       .seal = seal,
                                       .unpack = unpack,
                                       .attend = attend,
                                       .n_tail_max = n_tail_max,
                                       .bytes = bytes,
                                       .in_planes = &in_planes};

const sac_kv_format sac_kv_int4 = {"int4", "a range a row and head", SAC_DTYPE_F16, params, &packing};
