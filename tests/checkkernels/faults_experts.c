/* faults_experts.c - faults of routing, of products by expert and of mixing what they make. */
#include "faults.h"

#include <stdlib.h>

static sac_status route_normed(const sac_stream *s, const sac_route_args *a) {
    sac_route_args b = *a;
    b.normed = true;
    return ref().route(s, &b);
}

static sac_status route_no_bias(const sac_stream *s, const sac_route_args *a) {
    sac_route_args b = *a;
    b.bias = NULL;
    return ref().route(s, &b);
}
static sac_status route_no_groups(const sac_stream *s, const sac_route_args *a) {
    sac_route_args b = *a;
    b.n_groups = 0;
    return ref().route(s, &b);
}
static sac_status route_no_factor(const sac_stream *s, const sac_route_args *a) {
    sac_route_args b = *a;
    b.factor = 0;
    return ref().route(s, &b);
}
static sac_status route_softmax(const sac_stream *s, const sac_route_args *a) {
    sac_route_args b = *a;
    b.sigmoid = false;
    return ref().route(s, &b);
}

/* Of equal scores the last: experts numbered from the end. */
static sac_status route_last_of_equals(const sac_stream *s, const sac_route_args *a) {
    const int64_t n = a->scores.cols, rows = a->scores.rows, used = a->n_used;
    float *back = malloc((size_t)(rows * n) * sizeof *back);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t e = 0; e < n; e++) back[i * n + e] = sac_mat_row_f32(a->scores, i)[n - 1 - e];
    sac_route_args b = *a;
    b.scores = (sac_mat){back, rows, n, n, SAC_DTYPE_F32};
    sac_status st = ref().route(s, &b);
    free(back);
    int32_t *ends = malloc((size_t)(n + 1) * sizeof *ends);
    for (int64_t e = 0; e <= n; e++) ends[e] = (int32_t)(rows * used) - a->starts[n - e];
    for (int64_t e = 0; e <= n; e++) a->starts[e] = ends[e];
    free(ends);
    return st;
}

/* Rows of an expert from the last one on. */
static sac_status route_rows_backwards(const sac_stream *s, const sac_route_args *a) {
    sac_status st = ref().route(s, a);
    for (int64_t e = 0; e < a->scores.cols; e++)
        for (int32_t i = a->starts[e], k = a->starts[e + 1] - 1; i < k; i++, k--) {
            const int32_t t = a->source[i];
            a->source[i] = a->source[k], a->source[k] = t;
        }
    return st;
}

static sac_status route_places_in_order(const sac_stream *s, const sac_route_args *a) {
    sac_status st = ref().route(s, a);
    for (int64_t i = 0; i < a->scores.rows * a->n_used; i++) a->place[i] = (int32_t)i;
    return st;
}

static sac_status experts_first_of_all(const sac_stream *s, const sac_expert_linear_args *a) {
    sac_expert_linear_args b = *a;
    b.w_step = 0;
    return ref().expert_linear(s, &b);
}

/* The last row of each expert is the next one's. */
static sac_status experts_one_late(const sac_stream *s, const sac_expert_linear_args *a) {
    sac_status st = ref().expert_linear(s, a);
    for (int e = 0; e + 1 < a->n_experts; e++) {
        const int64_t last = a->starts[e + 1] - 1;
        if (last >= a->starts[e])
            ref().linear(s, &(sac_linear_args){.y = sac_mat_rows(a->y, last, 1),
                                               .x = sac_mat_rows(a->x, last, 1),
                                               .w = a->w[(e + 1) * a->w_step]});
    }
    return st;
}

static sac_status experts_last_column(const sac_stream *s, const sac_expert_linear_args *a) {
    const float before = sac_mat_row_f32(a->y, a->y.rows - 1)[a->y.cols - 1];
    sac_status st = ref().expert_linear(s, a);
    sac_mat_row_f32(a->y, a->y.rows - 1)[a->y.cols - 1] = before;
    return st;
}

static sac_status mix_no_weights(const sac_stream *s, const sac_mix_rows_args *a) {
    const int64_t n = a->y.rows * a->n_used;
    float *ones = malloc((size_t)n * sizeof *ones);
    for (int64_t i = 0; i < n; i++) ones[i] = 1;
    sac_mix_rows_args b = *a;
    b.weights = ones;
    sac_status st = ref().mix_rows(s, &b);
    free(ones);
    return st;
}

static sac_status mix_forgets_y(const sac_stream *s, const sac_mix_rows_args *a) {
    sac_mix_rows_args b = *a;
    b.accumulate = false;
    return ref().mix_rows(s, &b);
}

/* All but the last expert of the last row. */
static sac_status mix_no_last(const sac_stream *s, const sac_mix_rows_args *a) {
    const int64_t n = a->y.rows * a->n_used;
    float *weights = malloc((size_t)n * sizeof *weights);
    memcpy(weights, a->weights, (size_t)n * sizeof *weights);
    weights[n - 1] = 0;
    sac_mix_rows_args b = *a;
    b.weights = weights;
    sac_status st = ref().mix_rows(s, &b);
    free(weights);
    return st;
}

#define FAULTS(X)                                                                                            \
    X("normed", route, route_normed)                                                                         \
    X("no_bias", route, route_no_bias)                                                                       \
    X("no_groups", route, route_no_groups)                                                                   \
    X("no_factor", route, route_no_factor)                                                                   \
    X("softmax", route, route_softmax)                                                                       \
    X("last_of_equals", route, route_last_of_equals)                                                         \
    X("rows_backwards", route, route_rows_backwards)                                                         \
    X("places_in_order", route, route_places_in_order)                                                       \
    X("first_of_all", expert_linear, experts_first_of_all)                                                   \
    X("one_late", expert_linear, experts_one_late)                                                           \
    X("last_column", expert_linear, experts_last_column)                                                     \
    X("no_weights", mix_rows, mix_no_weights)                                                                \
    X("forgets_y", mix_rows, mix_forgets_y)                                                                  \
    X("no_last", mix_rows, mix_no_last)

FAULT_LIST(check_faults_experts, FAULTS)
