#include "ref.h"

#include <math.h>

/* The best of a row that is not out, -1 where all are. */
static int best_of(const float *scores, int n, const uint8_t *out) {
    int best = -1;
    for (int e = 0; e < n; e++) {
        if (out[e]) continue;
        if (best < 0 || scores[e] > scores[best] || (isnan(scores[best]) && !isnan(scores[e]))) best = e;
    }
    return best;
}

static float sigmoid(float x) {
    return (float)(1 / (1 + exp(-(double)x)));
}

/* What one row is chosen by. */
typedef struct choice {
    float by[SAC_ROUTE_MOST_EXPERTS], groups[SAC_ROUTE_MOST_EXPERTS];
    uint8_t out[SAC_ROUTE_MOST_EXPERTS], groups_out[SAC_ROUTE_MOST_EXPERTS];
} choice;

/* Experts of all groups but the chosen ones are out. */
static void choose_groups(const sac_route_args *a, choice *c) {
    const int n_each = (int)a->scores.cols / a->n_groups;
    for (int g = 0; g < a->n_groups; g++) {
        const float *by = c->by + g * n_each;
        uint8_t *out = c->out + g * n_each;
        const int first = best_of(by, n_each, out);
        out[first] = 1;
        c->groups[g] = by[first] + by[best_of(by, n_each, out)];
        memset(out, 1, (size_t)n_each);
    }
    memset(c->groups_out, 0, (size_t)a->n_groups);
    for (int i = 0; i < a->n_groups_used; i++) {
        const int g = best_of(c->groups, a->n_groups, c->groups_out);
        c->groups_out[g] = 1;
        memset(c->out + g * n_each, 0, (size_t)n_each);
    }
}

static void weigh_softmax(const sac_route_args *a, const float *scores, const int32_t *experts,
                          const choice *c, float *weights) {
    double sum = 0;
    const double top = (double)scores[experts[0]];
    for (int e = 0; e < (int)a->scores.cols; e++)
        if (c->out[e] || !a->normed) sum += exp((double)scores[e] - top);
    for (int j = 0; j < a->n_used; j++) weights[j] = (float)(exp((double)scores[experts[j]] - top) / sum);
}

/* Without the bias. 1e-20 as the families' own code has it, for a row whose scores are all 0. */
static void weigh_sigmoid(const sac_route_args *a, const float *scores, const int32_t *experts,
                          float *weights) {
    double sum = 1e-20;
    for (int j = 0; j < a->n_used; j++) sum += (double)sigmoid(scores[experts[j]]);
    const double by = (a->factor != 0 ? (double)a->factor : 1) / (a->normed ? sum : 1);
    for (int j = 0; j < a->n_used; j++) weights[j] = (float)((double)sigmoid(scores[experts[j]]) * by);
}

/* The experts of row i to its part of place, which is the expert's number until all rows have theirs. */
static void choose(const sac_route_args *a, int64_t i, choice *c) {
    const float *scores = sac_mat_row_f32(a->scores, i);
    const int n = (int)a->scores.cols;
    float *weights = a->weights + i * a->n_used;
    int32_t *experts = a->place + i * a->n_used;
    memset(c->out, 0, (size_t)n);
    for (int e = 0; e < n; e++)
        c->by[e] = !a->sigmoid ? scores[e] : a->bias ? sigmoid(scores[e]) + a->bias[e] : sigmoid(scores[e]);
    if (a->sigmoid && a->n_groups > 1) choose_groups(a, c);
    for (int j = 0; j < a->n_used; j++) {
        experts[j] = best_of(c->by, n, c->out);
        c->out[experts[j]] = 1;
    }
    if (a->sigmoid)
        weigh_sigmoid(a, scores, experts, weights);
    else
        weigh_softmax(a, scores, experts, c, weights);
}

/* In order of the expert, then of the row. */
static void line_up(const sac_route_args *a) {
    const int64_t n = a->scores.rows * a->n_used, n_experts = a->scores.cols;
    memset(a->starts, 0, (size_t)(n_experts + 1) * sizeof *a->starts);
    for (int64_t i = 0; i < n; i++) a->starts[a->place[i] + 1]++; /* how many each has */
    for (int64_t e = 0; e < n_experts; e++) a->starts[e + 1] += a->starts[e];
    for (int64_t i = 0; i < n; i++) { /* starts[e] is the next free place of e */
        const int32_t e = a->place[i], at = a->starts[e]++;
        a->place[i] = at;
        a->source[at] = (int32_t)(i / a->n_used);
        a->expert[at] = e;
    }
    memmove(a->starts + 1, a->starts, (size_t)n_experts * sizeof *a->starts);
    a->starts[0] = 0;
}

sac_status sac_ref_route(const sac_stream *s, const sac_route_args *a) {
    assert(sac_ref_is_mat(a->scores) && a->scores.cols <= SAC_ROUTE_MOST_EXPERTS);
    assert(a->n_used >= 1 && a->n_used <= a->scores.cols && a->scores.rows * a->n_used <= INT32_MAX);
    if (a->sigmoid && a->n_groups > 1) {
        assert(a->scores.cols % a->n_groups == 0 && a->scores.cols / a->n_groups >= 2);
        assert(a->n_groups_used >= 1 && a->n_groups_used <= a->n_groups);
        assert(a->n_used <= a->n_groups_used * (a->scores.cols / a->n_groups));
    }
    choice c;
    (void)s;
    for (int64_t i = 0; i < a->scores.rows; i++) choose(a, i, &c);
    line_up(a);
    return SAC_OK;
}

/* Row by row: nothing of one reaches another. */
sac_status sac_ref_expert_linear(const sac_stream *s, const sac_expert_linear_args *a) {
    assert(sac_ref_is_mat(a->x) && sac_ref_is_mat(a->y) && a->x.rows == a->y.rows);
    assert(a->starts[0] == 0 && a->starts[a->n_experts] == a->x.rows);
    for (int64_t i = 0; i < a->x.rows; i++) {
        const int32_t e = a->expert[i];
        assert(e >= 0 && e < a->n_experts && i >= a->starts[e] && i < a->starts[e + 1]);
        SAC_TRY(sac_ref_linear(s, &(sac_linear_args){.y = sac_mat_rows(a->y, i, 1),
                                                     .x = sac_mat_rows(a->x, i, 1),
                                                     .w = a->w[e * a->w_step],
                                                     .fast = a->fast}));
    }
    return SAC_OK;
}

sac_status sac_ref_mix_rows(const sac_stream *s, const sac_mix_rows_args *a) {
    (void)s;
    assert(sac_ref_is_mat(a->x) && sac_ref_is_mat(a->y) && a->x.cols == a->y.cols && a->n_used >= 1);
    for (int64_t i = 0; i < a->y.rows; i++)
        for (int64_t c = 0; c < a->y.cols; c++) {
            float *y = sac_mat_row_f32(a->y, i) + c;
            double sum = 0;
            for (int64_t j = i * a->n_used; j < (i + 1) * a->n_used; j++) {
                assert(a->place[j] >= 0 && a->place[j] < a->x.rows);
                sum += (double)a->weights[j] * (double)sac_mat_row_f32(a->x, a->place[j])[c];
            }
            *y = (float)(a->accumulate ? (double)*y + sum : sum);
        }
    return SAC_OK;
}
