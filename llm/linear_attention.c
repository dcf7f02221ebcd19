#include "linear_attention.h"

#include <assert.h>
#include <string.h>

/* Of the length of a head's key or query, whatever eps the norms have (transformers' and FLA's l2norm). */
static const float length_eps = 1e-6f;

/* ---------------------------------------------------------------- states */

static int64_t conv_floats(const sac_linear_shape *s) {
    return (s->conv_width - 1) * sac_linear_mixed(s);
}
static int64_t layer_floats(const sac_linear_shape *s) {
    return conv_floats(s) + sac_linear_values(s) * s->key_dim;
}

static size_t layer_bytes(const sac_linear_states *s) {
    return (size_t)layer_floats(&s->shape) * sizeof(float);
}

size_t sac_linear_states_bytes(const sac_linear_states *s) {
    return s->n_layers ? 2 * (size_t)s->n_layers * layer_bytes(s) : 0;
}

void sac_linear_states_take(sac_linear_states *s, sac_arena *arena) {
    if (!s->n_layers) return;
    s->data = sac_arena_take(arena, sac_linear_states_bytes(s));
    s->saved = s->data ? s->data + s->n_layers * layer_floats(&s->shape) : NULL;
}

static sac_status copy(float *to, const float *from, size_t n_bytes, const sac_device *d, const sac_stream *stream) {
    if (d) return d->copy(stream, to, from, n_bytes);
    memcpy(to, from, n_bytes);
    return SAC_OK;
}

sac_status sac_linear_states_begin(sac_linear_states *s, int64_t past, const sac_device *d, const sac_stream *stream) {
    const size_t n_bytes = (size_t)s->n_layers * layer_bytes(s);
    const bool goes_back = s->goes_back && past > 0;
    s->goes_back = false;
    if (!s->data || (past > 0 && !goes_back)) return SAC_OK;
    if (goes_back) return copy(s->data, s->saved, n_bytes, d, stream);
    s->saved_rows = 0;
    if (d) return d->zero(stream, s->data, n_bytes);
    memset(s->data, 0, n_bytes);
    return SAC_OK;
}

sac_status sac_linear_states_save(const sac_linear_states *s, int number, const sac_device *d, const sac_stream *stream) {
    const int64_t at = number * layer_floats(&s->shape);
    return copy(s->saved + at, s->data + at, layer_bytes(s), d, stream);
}

static float *conv_state(const sac_linear_states *s, int layer) {
    return s->data + layer * layer_floats(&s->shape);
}
static float *head_states(const sac_linear_states *s, int layer) {
    return conv_state(s, layer) + conv_floats(&s->shape);
}

/* ---------------------------------------------------------------- rows */

sac_linear_rows sac_linear_rows_take(const sac_linear_shape *shape, int64_t rows, sac_dtype t, sac_arena *arena) {
    if (!shape->n_heads) return (sac_linear_rows){0};
    const size_t n = (size_t)rows;
    sac_linear_rows r;
    r.mixed = sac_arena_take(arena, n * sac_dtype_row_bytes(t, sac_linear_mixed(shape)));
    r.z = sac_arena_take(arena, n * sac_dtype_row_bytes(t, sac_linear_values(shape)));
    r.out = sac_arena_take(arena, n * sac_dtype_row_bytes(t, sac_linear_values(shape)));
    r.a = sac_arena_take(arena, n * sac_dtype_row_bytes(t, shape->n_heads));
    r.b = sac_arena_take(arena, n * sac_dtype_row_bytes(t, shape->n_heads));
    return r;
}

static sac_mat scratch(const sac_linear_call *c, void *data, int64_t cols) {
    return (sac_mat){data, c->x.rows, cols, cols, c->x.dtype};
}

static sac_mat columns(sac_mat m, int64_t first, int64_t n) {
    m.data = (uint8_t *)m.data + sac_dtype_row_bytes(m.dtype, first);
    m.cols = n;
    return m;
}

sac_status sac_linear_in(const sac_linear_call *c) {
    const sac_linear_layer *w = c->weights;
    const sac_linear_rows *r = c->rows;
    SAC_TRY(c->ops->linear_group(
        c->stream, &(sac_linear_group_args){.n = 2,
                                            .x = c->x,
                                            .y = {scratch(c, r->mixed, sac_linear_mixed(c->shape)),
                                                  scratch(c, r->z, sac_linear_values(c->shape))},
                                            .w = {w->qkv, w->z},
                                            .fast = c->fast,
                                            .steady = c->steps}));
    return c->ops->linear_group(c->stream, &(sac_linear_group_args){.n = 2,
                                                                    .x = c->x,
                                                                    .y = {scratch(c, r->a, c->shape->n_heads),
                                                                          scratch(c, r->b, c->shape->n_heads)},
                                                                    .w = {w->a, w->b},
                                                                    .fast = c->fast,
                                                                    .steady = c->steps});
}

/* The value heads from `first` on, of which there are n, and the key heads that they read. */
static sac_status recur_heads(const sac_linear_call *c, int64_t at, int64_t rows, int first, int n, const sac_state_rows *heads,
                              int n_parts) {
    const sac_linear_shape *s = c->shape;
    const sac_linear_layer *w = c->weights;
    const int64_t keys = sac_linear_keys(s), values = sac_linear_values(s), before = first * (int64_t)s->value_dim,
                  own = n * (int64_t)s->value_dim;
    const sac_mat mixed = sac_mat_rows(scratch(c, c->rows->mixed, sac_linear_mixed(s)), at, rows),
                  a = sac_mat_rows(scratch(c, c->rows->a, s->n_heads), at, rows),
                  b = sac_mat_rows(scratch(c, c->rows->b, s->n_heads), at, rows);
    return c->ops->delta_rule(
        c->stream, &(sac_delta_rule_args){.y = columns(sac_mat_rows(scratch(c, c->rows->out, values), at, rows), before, own),
                                          .q = columns(mixed, 0, keys),
                                          .k = columns(mixed, keys, keys),
                                          .v = columns(mixed, 2 * keys + before, own),
                                          .a = columns(a, first, n),
                                          .b = columns(b, first, n),
                                          .a_log = w->a_log + first,
                                          .dt_bias = w->dt_bias + first,
                                          .n_heads = n,
                                          .n_key_heads = s->n_key_heads,
                                          .eps = length_eps,
                                          .parts = heads,
                                          .n_parts = n_parts});
}

/* As many value heads at a time as there are key heads: each reads its own. */
static sac_status recur_tiles(const sac_linear_call *c, int64_t at, int64_t rows, sac_state_rows *heads, int n_parts) {
    const sac_linear_shape *s = c->shape;
    for (int first = 0; first < s->n_heads; first += s->n_key_heads) {
        SAC_TRY(recur_heads(c, at, rows, first, s->n_key_heads, heads, n_parts));
        for (int i = 0; i < n_parts; i++) heads[i].state += sac_linear_keys(s) * s->value_dim;
    }
    return SAC_OK;
}

sac_status sac_linear_recur(const sac_linear_call *c, int number, int64_t at, const sac_linear_part *parts, int n_parts) {
    const sac_linear_shape *s = c->shape;
    const sac_linear_layer *w = c->weights;
    sac_state_rows conv[SAC_LINEAR_TOGETHER], heads[SAC_LINEAR_TOGETHER];
    int64_t n = 0;
    assert(n_parts <= SAC_LINEAR_TOGETHER);
    for (int i = 0; i < n_parts; n += parts[i++].n) {
        conv[i] = (sac_state_rows){parts[i].n, conv_state(parts[i].states, number)};
        heads[i] = (sac_state_rows){parts[i].n, head_states(parts[i].states, number)};
    }
    const sac_mat mixed = sac_mat_rows(scratch(c, c->rows->mixed, sac_linear_mixed(s)), at, n);
    SAC_TRY(c->ops->causal_conv(c->stream, &(sac_causal_conv_args){.y = mixed,
                                                                   .x = mixed,
                                                                   .w = w->conv,
                                                                   .width = s->conv_width,
                                                                   .parts = conv,
                                                                   .n_parts = n_parts}));
    if (s->tiled && s->n_heads > s->n_key_heads) return recur_tiles(c, at, n, heads, n_parts);
    return recur_heads(c, at, n, 0, s->n_heads, heads, n_parts);
}

sac_status sac_linear_out(const sac_linear_call *c) {
    const sac_linear_shape *s = c->shape;
    const sac_mat out = scratch(c, c->rows->out, sac_linear_values(s)), z = scratch(c, c->rows->z, out.cols),
                  heads = {out.data, out.rows * s->n_heads, s->value_dim, s->value_dim, out.dtype};
    SAC_TRY(c->ops->rmsnorm(c->stream, &(sac_rmsnorm_args){heads, heads, c->weights->norm, c->rms_eps}));
    SAC_TRY(c->ops->swiglu(c->stream, &(sac_swiglu_args){.y = out, .gate = z, .up = out}));
    return c->ops->linear(c->stream, &(sac_linear_args){.y = c->y,
                                                        .x = out,
                                                        .w = c->weights->out,
                                                        .accumulate = true,
                                                        .fast = c->fast,
                                                        .steady = c->steps});
}

double sac_linear_attention_cost(const sac_linear_shape *s, int64_t hidden) {
    const double values = (double)sac_linear_values(s), mixed = (double)sac_linear_mixed(s);
    return (double)hidden * (mixed + 2 * values + 2 * s->n_heads) + mixed * s->conv_width + 3 * values * s->key_dim;
}
