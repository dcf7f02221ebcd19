#include "experts.h"

sac_expert_rows sac_expert_rows_take(const sac_expert_shape *shape, int64_t hidden, int64_t rows, sac_dtype t,
                                     sac_arena *arena) {
    if (!shape->n) return (sac_expert_rows){0};
    const size_t n = (size_t)rows * (size_t)shape->n_used;
    sac_expert_rows r;
    r.scores = sac_arena_take(arena, (size_t)rows * (size_t)shape->n * sizeof(float));
    r.weights = sac_arena_take(arena, n * sizeof(float));
    r.place = sac_arena_take(arena, n * sizeof(int32_t));
    r.source = sac_arena_take(arena, n * sizeof(int32_t));
    r.expert = sac_arena_take(arena, n * sizeof(int32_t));
    r.starts = sac_arena_take(arena, ((size_t)shape->n + 1) * sizeof(int32_t));
    r.x = sac_arena_take(arena, n * sac_dtype_row_bytes(t, hidden));
    r.gate = sac_arena_take(arena, n * sac_dtype_row_bytes(t, shape->intermediate));
    r.up = sac_arena_take(arena, n * sac_dtype_row_bytes(t, shape->intermediate));
    return r;
}

/* A row by its experts: the same for every product. */
static sac_status product(const sac_experts_call *c, sac_mat y, sac_mat x, const sac_weight *first) {
    return c->ops->expert_linear(c->stream,
                                 &(sac_expert_linear_args){.y = y,
                                                           .x = x,
                                                           .w = first,
                                                           .w_step = sizeof(sac_expert) / sizeof(sac_weight),
                                                           .n_experts = c->shape->n,
                                                           .starts = c->rows->starts,
                                                           .expert = c->rows->expert,
                                                           .fast = c->fast});
}

/* Whose scores choose has to be the same whatever rows are beside one: `steady`. */
static sac_status route(const sac_experts_call *c) {
    const sac_expert_rows *r = c->rows;
    const sac_mat scores = sac_mat_f32(r->scores, c->x.rows, c->shape->n);
    SAC_TRY(c->ops->linear(c->stream,
                           &(sac_linear_args){.y = scores, .x = c->x, .w = *c->router, .steady = true}));
    return c->ops->route(c->stream, &(sac_route_args){.scores = scores,
                                                      .n_used = c->shape->n_used,
                                                      .normed = c->shape->normed,
                                                      .sigmoid = c->shape->sigmoid,
                                                      .bias = c->router_bias,
                                                      .n_groups = c->shape->n_groups,
                                                      .n_groups_used = c->shape->n_groups_used,
                                                      .factor = c->shape->factor,
                                                      .weights = r->weights,
                                                      .place = r->place,
                                                      .source = r->source,
                                                      .expert = r->expert,
                                                      .starts = r->starts});
}

/* What each expert makes of its rows, in place. */
static sac_status mlp(const sac_experts_call *c, sac_mat e) {
    const int64_t k = c->shape->intermediate;
    const sac_mat gate = {c->rows->gate, e.rows, k, k, e.dtype}, up = {c->rows->up, e.rows, k, k, e.dtype};
    SAC_TRY(product(c, gate, e, &c->experts->gate));
    SAC_TRY(product(c, up, e, &c->experts->up));
    SAC_TRY(c->ops->swiglu(c->stream, &(sac_swiglu_args){.y = gate, .gate = gate, .up = up, .act = c->act}));
    return product(c, e, gate, &c->experts->down);
}

sac_status sac_experts_run(const sac_experts_call *c) {
    const sac_expert_rows *r = c->rows;
    const int64_t hidden = c->x.cols;
    const sac_mat e = {r->x, c->x.rows * c->shape->n_used, hidden, hidden, c->x.dtype};
    SAC_TRY(route(c));
    SAC_TRY(c->ops->gather_rows(c->stream, &(sac_gather_rows_args){.y = e, .x = c->x, .source = r->source}));
    SAC_TRY(mlp(c, e));
    return c->ops->mix_rows(c->stream, &(sac_mix_rows_args){.y = c->y,
                                                            .x = e,
                                                            .n_used = c->shape->n_used,
                                                            .weights = r->weights,
                                                            .place = r->place,
                                                            .accumulate = c->accumulate});
}
