/* cases_reuse.c - cases of choice_reuse. */
#include "check.h"

#include <math.h>

/* Cosines far from theta: sums in any order agree. */
static const struct reuse_shape {
    int64_t n;
    double cosine, theta; /* of q and what is cached */
    bool empty;
    int64_t max_hits, hits;
} shapes[] = {{3584, 0.95, 0.9, false, 0, 0}, {3584, 0.85, 0.9, false, 0, 5},  {3584, 0.95, 0.9, true, 0, 2},
              {3584, 0.95, 0.9, false, 3, 3}, {3584, 0.95, 0.9, false, 3, 2},  {1, 1, 0.9, false, 0, 0},
              {1, -1, 0.9, false, 0, 1},      {500, -0.5, -1, false, 0, 7},    {500, -0.5, -1, true, 0, 7},
              {513, 1, 2, false, 0, 7},       {513, -0.3, -0.4, false, 0, 1},  {513, -0.5, -0.4, false, 9, 1},
              {512, 0.05, 0, false, 0, 1},    {10000, -0.05, 0, false, 0, 11}, {64, 0, 0.5, false, 0, 1}};

/* q = cosine * u + sine * v for u and v at right angles, of lengths far from 1. */
static void make_queries(check_case *c, const struct reuse_shape *sh, float *q, float *cached) {
    double dot = 0, own = 0, left = 0;
    check_fill(c, cached, sh->n, CHECK_UNIFORM);
    check_fill(c, q, sh->n, CHECK_UNIFORM);
    for (int64_t i = 0; i < sh->n; i++)
        dot += (double)q[i] * (double)cached[i], own += (double)cached[i] * (double)cached[i];
    for (int64_t i = 0; i < sh->n; i++) {
        q[i] -= (float)(dot / own) * cached[i];
        left += (double)q[i] * (double)q[i];
    }
    double sine = left > 1e-6 * own ? sqrt((1 - sh->cosine * sh->cosine) / left) : 0;
    for (int64_t i = 0; i < sh->n; i++) {
        q[i] = (float)(30 * (sine * (double)q[i] + sh->cosine * (double)cached[i] / sqrt(own)));
        cached[i] *= 7;
    }
}

bool check_make_reuse(check_case *c, int i) {
    if (i >= (int)SAC_COUNT(shapes)) return false;
    const struct reuse_shape *sh = &shapes[i];
    float *q = check_buffer_add(c, false, SAC_DTYPE_F32, 1, sh->n, sh->n, 4);
    float *cached = check_buffer_add(c, true, SAC_DTYPE_F32, 1, sh->n, sh->n, 4);
    int64_t *hits = check_buffer_add(c, true, SAC_DTYPE_F32, 1, 4, 4, 0);
    c->buffer[c->n_buffers - 1].integers = true;
    int32_t *skip = check_buffer_add(c, true, SAC_DTYPE_F32, 1, 1, 1, 4);
    c->buffer[c->n_buffers - 1].integers = true;
    make_queries(c, sh, q, cached);
    hits[0] = sh->hits, hits[1] = 40 + sh->hits;
    *skip = 3;
    c->choice_reuse = (sac_choice_reuse_args){
        q, cached, sh->n, sh->theta, sh->empty, sh->max_hits, hits, skip,
    };
    c->exact = c->same_bits = true;
    snprintf(c->text, sizeof c->text, "n=%lld cosine=%g theta=%g%s hits %lld of %lld", (long long)sh->n,
             sh->cosine, sh->theta, sh->empty ? " empty" : "", (long long)sh->hits, (long long)sh->max_hits);
    return true;
}
