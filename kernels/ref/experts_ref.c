#include "ref.h"

#include <math.h>

/* The best of a row that is not chosen yet. */
static int best_of(const float *scores, int n, const uint8_t *chosen) {
    int best = -1;
    for (int e = 0; e < n; e++) {
        if (chosen[e]) continue;
        if (best < 0 || scores[e] > scores[best] || (isnan(scores[best]) && !isnan(scores[e]))) best = e;
    }
    return best;
}

/* The experts of row i to its part of place, which is the expert's number until all rows have theirs. */
static void choose(const sac_route_args *a, int64_t i, uint8_t *chosen) {
    const float *scores = sac_mat_row_f32(a->scores, i);
    const int n = (int)a->scores.cols;
    float *weights = a->weights + i * a->n_used;
    int32_t *experts = a->place + i * a->n_used;
    double sum = 0;
    memset(chosen, 0, (size_t)n);
    for (int j = 0; j < a->n_used; j++) {
        experts[j] = best_of(scores, n, chosen);
        chosen[experts[j]] = 1;
    }
    const double top = (double)scores[experts[0]];
    for (int e = 0; e < n; e++)
        if (chosen[e] || !a->normed) sum += exp((double)scores[e] - top);
    for (int j = 0; j < a->n_used; j++) weights[j] = (float)(exp((double)scores[experts[j]] - top) / sum);
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
    for (int64_t i = 0; i < a->scores.rows; i++) choose(a, i, sac_stream_thread_scratch(s, 0));
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
