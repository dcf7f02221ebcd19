/* reduce_test.h - what the tests of reducers share: a reducer without an engine, and videos drawn for it. */
#ifndef SAC_REDUCE_TEST_H
#define SAC_REDUCE_TEST_H

#include "reduce.h"
#include "test.h"

#include <math.h>

static inline sac_reduce reducer(const char *line) {
    sac_reduce r;
    sac_error err;
    assert_ok(sac_reduce_parse(&r, line, &err), err);
    return r;
}

/* All at once, the tiles shown one by one; -1 where it was stopped. */
static inline int64_t choose_with(const sac_reduce_run *run, const sac_reduce *r, const sac_reduce_video *v, float *x,
                                  int32_t *kept) {
    const int64_t n = r->reducer->count_video(r->p, v), all = v->n_tiles * v->cells;
    void *state = calloc(1, r->reducer->state_bytes(r->p, v));
    for (int64_t t = 0; r->reducer->see && t < v->n_tiles; t++)
        r->reducer->see(r->p, v, state, t, x + t * v->cells * v->cols);
    const bool is_chosen = n == all || r->reducer->choose_video(run, r->p, v, state, v->n_tiles,
                                                                sac_mat_f32(x, all, v->cols), kept, n);
    free(state);
    return is_chosen ? n : -1;
}

static inline int64_t choose(const sac_reduce *r, const sac_reduce_video *v, float *x, int32_t *kept) {
    return choose_with(NULL, r, v, x, kept);
}

static inline double random_number(uint64_t *random) {
    return (double)test_rand_int(random, -1000, 1000) / 500;
}

/* A scene that changes a little, with a cut, and a cell of zeros. */
static inline float *draw(const sac_reduce_video *v, uint64_t *random) {
    const int64_t each = v->cells * v->cols;
    float *x = malloc((size_t)(v->n_tiles * each) * sizeof *x);
    for (int64_t i = 0; i < v->n_tiles * each; i++) {
        const int64_t t = i / each;
        if (t == 0 || t == v->n_tiles / 2)
            x[i] = (float)random_number(random);
        else
            x[i] = x[i - each] + (float)(random_number(random) * ((i / v->cols) % 3 == 0 ? 0.5 : 0.01));
    }
    return x;
}

#endif
