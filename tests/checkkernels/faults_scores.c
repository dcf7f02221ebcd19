/* faults_scores.c - faults of edit_scores and weigh_scores. */
#include "faults.h"

#include "score_weight.h"

#include <math.h>
#include <stdlib.h>

/* ---------------------------------------------------------------- edit_scores */

static sac_status edit_no_mask(const sac_stream *s, const sac_edit_scores_args *a) {
    sac_edit_scores_args b = *a;
    b.is_masked = NULL;
    return ref().edit_scores(s, &b);
}

static sac_status edit_one_mask(const sac_stream *s, const sac_edit_scores_args *a) {
    sac_edit_scores_args b = *a;
    b.mask_stride = 0;
    return ref().edit_scores(s, &b);
}

/* Rows without a mask have one. */
static sac_status edit_masks_all(const sac_stream *s, const sac_edit_scores_args *a) {
    int32_t *ones = malloc((size_t)a->n_rows * sizeof *ones + 1);
    if (!ones) abort();
    for (int i = 0; i < a->n_rows; i++) ones[i] = 1;
    sac_edit_scores_args b = *a;
    if (a->is_masked) b.is_masked = ones;
    sac_status st = ref().edit_scores(s, &b);
    free(ones);
    return st;
}

/* Of a row whose last word is not full, that word. */
static sac_status edit_whole_words(const sac_stream *s, const sac_edit_scores_args *a) {
    sac_edit_scores_args b = *a;
    if (a->n > 32) b.n = a->n / 32 * 32;
    sac_score_edit *kept = malloc((size_t)a->n_rows * (size_t)a->edit_stride * sizeof *kept);
    if (!kept) abort();
    for (int64_t i = 0; i < a->n_rows * a->edit_stride; i++) {
        kept[i] = a->edits[i];
        if (kept[i].id >= b.n) kept[i] = (sac_score_edit){0, 0, 1, 0};
    }
    b.edits = kept;
    sac_status st = ref().edit_scores(s, &b);
    free(kept);
    return st;
}

/* As edits would be made one way or another. */
static sac_status edit_each(const sac_edit_scores_args *a, float (*edit)(float x, const sac_score_edit *e)) {
    for (int row = 0; row < a->n_rows; row++) {
        float *x = a->x + row * a->stride;
        for (int32_t i = 0; i < a->n_edits[row]; i++) {
            const sac_score_edit *e = &a->edits[row * a->edit_stride + i];
            x[e->id] = edit(x[e->id], e);
        }
    }
    sac_edit_scores_args b = *a;
    int32_t *none = calloc((size_t)a->n_rows + 1, sizeof *none);
    if (!none) abort();
    b.n_edits = none;
    sac_status st = ref().edit_scores(NULL, &b);
    free(none);
    return st;
}

static float times_inverse(float x, const sac_score_edit *e) {
    x += e->bias;
    x = x < 0 ? x * e->repetition : x * (1 / e->repetition);
    return x - e->less;
}
static sac_status edit_by_inverse(const sac_stream *s, const sac_edit_scores_args *a) {
    (void)s;
    return edit_each(a, times_inverse);
}

static float penalised_first(float x, const sac_score_edit *e) {
    x = x < 0 ? x * e->repetition : x / e->repetition;
    return x + e->bias - e->less;
}
static sac_status edit_bias_behind(const sac_stream *s, const sac_edit_scores_args *a) {
    (void)s;
    return edit_each(a, penalised_first);
}

static float one_sided(float x, const sac_score_edit *e) {
    return (x + e->bias) / e->repetition - e->less;
}
static sac_status edit_one_sided(const sac_stream *s, const sac_edit_scores_args *a) {
    (void)s;
    return edit_each(a, one_sided);
}

static float contracted(float x, const sac_score_edit *e) {
    x += e->bias;
    return x < 0 ? fmaf(x, e->repetition, -e->less) : x / e->repetition - e->less;
}
static sac_status edit_contracted(const sac_stream *s, const sac_edit_scores_args *a) {
    (void)s;
    return edit_each(a, contracted);
}

/* ---------------------------------------------------------------- weigh_scores */

static sac_status weigh_each(const sac_weigh_scores_args *a, double (*weigh)(sac_weighing w, const float *x, int64_t n)) {
    sac_status st = ref().weigh_scores(NULL, a);
    for (int row = 0; row < a->n_rows; row++)
        if (a->scale[row] != 0) a->total[row] = weigh((sac_weighing){a->best[row], a->scale[row]}, a->x + row * a->stride, a->n);
    return st;
}

static double one_by_one(sac_weighing w, const float *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)sac_score_weight(w, x[i]);
    return sum;
}
static sac_status weigh_one_by_one(const sac_stream *s, const sac_weigh_scores_args *a) {
    (void)s;
    return weigh_each(a, one_by_one);
}

static double by_expf(sac_weighing w, const float *x, int64_t n) {
    double sum = 0;
    for (int64_t first = 0; first < n; first += SAC_WEIGHT_STRETCH) {
        float lanes[SAC_WEIGHT_LANES] = {0};
        for (int64_t i = first; i < first + SAC_WEIGHT_STRETCH && i < n; i++)
            lanes[i % SAC_WEIGHT_LANES] += expf(sac_score_exponent(w, x[i]));
        for (int i = 0; i < SAC_WEIGHT_LANES; i++) sum += (double)lanes[i];
    }
    return sum;
}
static sac_status weigh_by_expf(const sac_stream *s, const sac_weigh_scores_args *a) {
    (void)s;
    return weigh_each(a, by_expf);
}

/* Where none is asked for, the first. */
static sac_status weigh_none_drawn_below(const sac_stream *s, const sac_weigh_scores_args *a) {
    sac_status st = ref().weigh_scores(s, a);
    for (int row = 0; row < a->n_rows; row++)
        if (a->scale[row] != 0 && a->u[row] < 0) a->at[row] = 0, a->value[row] = a->x[row * a->stride];
    return st;
}

static sac_status weigh_reaches(const sac_stream *s, const sac_weigh_scores_args *a) {
    double *u = malloc((size_t)a->n_rows * sizeof *u + 1);
    if (!u) abort();
    for (int i = 0; i < a->n_rows; i++) u[i] = a->u[i] < 0 ? -1 : 1 - a->u[i];
    sac_weigh_scores_args b = *a;
    b.u = u;
    sac_status st = ref().weigh_scores(s, &b);
    free(u);
    return st;
}

static sac_status weigh_no_last(const sac_stream *s, const sac_weigh_scores_args *a) {
    sac_weigh_scores_args b = *a;
    if (b.n > 1) b.n--;
    return ref().weigh_scores(s, &b);
}

/* What comes behind the rest of a stretch is counted among the lanes. */
static double rest_in_lanes(sac_weighing w, const float *x, int64_t n) {
    double sum = 0;
    for (int64_t first = 0; first < n; first += SAC_WEIGHT_STRETCH) {
        float lanes[SAC_WEIGHT_LANES] = {0};
        for (int64_t i = first; i < first + SAC_WEIGHT_STRETCH && i < n; i++) lanes[i % SAC_WEIGHT_LANES] += sac_score_weight(w, x[i]);
        double of_stretch = 0;
        for (int i = 0; i < SAC_WEIGHT_LANES; i++) of_stretch += (double)lanes[i];
        sum += of_stretch;
    }
    return sum;
}
static sac_status weigh_rest_in_lanes(const sac_stream *s, const sac_weigh_scores_args *a) {
    (void)s;
    return weigh_each(a, rest_in_lanes);
}

static sac_status weigh_left_out_too(const sac_stream *s, const sac_weigh_scores_args *a) {
    sac_status st = ref().weigh_scores(s, a);
    for (int row = 0; row < a->n_rows; row++)
        if (a->scale[row] == 0) a->total[row] = (double)a->n;
    return st;
}

#define FAULTS(X)                                                                                            \
    X("no_mask", edit_scores, edit_no_mask)                                                                  \
    X("one_mask", edit_scores, edit_one_mask)                                                                \
    X("masks_all", edit_scores, edit_masks_all)                                                              \
    X("whole_words", edit_scores, edit_whole_words)                                                          \
    X("by_inverse", edit_scores, edit_by_inverse)                                                            \
    X("bias_behind", edit_scores, edit_bias_behind)                                                          \
    X("one_sided", edit_scores, edit_one_sided)                                                              \
    X("contracted", edit_scores, edit_contracted)                                                            \
    X("one_by_one", weigh_scores, weigh_one_by_one)                                                          \
    X("by_expf", weigh_scores, weigh_by_expf)                                                                \
    X("drawn_below", weigh_scores, weigh_none_drawn_below)                                                   \
    X("from_the_end", weigh_scores, weigh_reaches)                                                           \
    X("no_last", weigh_scores, weigh_no_last)                                                                \
    X("rest_in_lanes", weigh_scores, weigh_rest_in_lanes)                                                    \
    X("left_out_too", weigh_scores, weigh_left_out_too)

FAULT_LIST(check_faults_scores, FAULTS)
