/* EVS: a video keeps the visual tokens that changed the most since the step of time before.
 *
 * Source: Bagrov et al., Efficient Video Sampling, arXiv:2510.14624, and the rule as published with vLLM
 * (--video-pruning-rate q). Of T steps of P tokens, max(P, floor(T P (1 - q))) stay: those whose rows, as the language model
 * would get them, have the smallest cosine with the row of the same cell a step before. The first step stays whole. Of equals
 * the earlier stays.
 *
 * Only the rows of the step before are looked at, and what is not among the best so far never will be, so a video's rows need
 * not be held all at once. Ours: sums are in double; a row of zeros has a cosine of 0 with any other, as in torch;
 * equal rows have exactly 1, so that of a still video the first cells stay. */
#include "reduce.h"

#include <math.h>
#include <string.h>

enum { PRUNE };

static const sac_method_param params[] = {
    [PRUNE] = {"prune", 0.5, 0, 0.999, "share of a video's visual tokens that go (vLLM's video pruning rate)",
               NULL},
    {0}};

#define FIRST_STEP    255.0f /* above any 1 - cosine */
#define LEAST_LENGTHS 1e-8   /* of two rows, multiplied */

typedef struct evs {
    uint64_t *keys; /* [n_tiles * cells] */
    float *score;   /* [n_tiles * cells] 1 - cosine */
    float *before;  /* [cells][cols] rows of the last tile seen */
} evs;

static bool is_off(const double *p) {
    return p[PRUNE] <= 0;
}

static int64_t count(const double *p, const sac_reduce_video *v) {
    int64_t n = (int64_t)((double)(v->n_tiles * v->cells) * (1 - p[PRUNE]));
    return n > v->cells ? n : v->cells;
}

static size_t state_bytes(const double *p, const sac_reduce_video *v) {
    (void)p;
    const size_t n = (size_t)(v->n_tiles * v->cells);
    return n * (sizeof(uint64_t) + sizeof(float)) + (size_t)(v->cells * v->cols) * sizeof(float);
}

static evs view(const sac_reduce_video *v, void *state) {
    const int64_t n = v->n_tiles * v->cells;
    evs e = {.keys = state};
    e.score = (float *)(e.keys + n);
    e.before = e.score + n;
    return e;
}

static double change(const float *x, const float *y, int64_t n) {
    double dot = 0, xx = 0, yy = 0;
    for (int64_t i = 0; i < n; i++) {
        dot += (double)x[i] * (double)y[i];
        xx += (double)x[i] * (double)x[i];
        yy += (double)y[i] * (double)y[i];
    }
    return 1 - dot / fmax(sqrt(xx * yy), LEAST_LENGTHS);
}

static void see(const double *p, const sac_reduce_video *v, void *state, int64_t tile, const float *rows) {
    (void)p;
    evs e = view(v, state);
    for (int64_t i = 0; i < v->cells; i++)
        e.score[tile * v->cells + i] =
            tile ? (float)change(rows + i * v->cols, e.before + i * v->cols, v->cols) : FIRST_STEP;
    memcpy(e.before, rows, (size_t)(v->cells * v->cols) * sizeof *rows);
}

static bool choose(const sac_reduce_run *run, const double *p, const sac_reduce_video *v, void *state,
                   int64_t n_seen, sac_mat rows, int32_t *kept, int64_t n_kept) {
    (void)run, (void)p, (void)rows;
    evs e = view(v, state);
    const int64_t n = n_seen * v->cells;
    for (int64_t i = 0; i < n; i++) e.keys[i] = sac_reduce_key(e.score[i], (int32_t)i);
    sac_reduce_take_best(e.keys, n, kept, n_kept);
    return true;
}

const sac_reducer sac_reducer_evs = {
    .name = "evs",
    .source = "Bagrov et al., arXiv:2510.14624",
    .params = params,
    .is_off = is_off,
    .count_video = count,
    .state_bytes = state_bytes,
    .see = see,
    .choose_video = choose,
};
