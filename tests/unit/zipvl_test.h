/* zipvl_test.h - what ZipVL's prefill should find, in fp64. */
#ifndef SAC_ZIPVL_TEST_H
#define SAC_ZIPVL_TEST_H

#include "importance.h"
#include "method_test.h"

enum { MAX_TOKENS = 700, MAX_COLS = 2 * 128 };

/* Query heads, key-value heads, head size. */
static const int GROUPS[][3] = {{4, 4, 16}, {4, 1, 16}, {7, 1, 16}, {8, 1, 16},
                                {6, 2, 16}, {2, 1, 64}, {2, 1, 80}, {2, 1, 128}};

/* What the method should find. */
typedef struct found {
    double sums[MAX_TOKENS], means[MAX_TOKENS];
    int64_t p;
    bool kept[MAX_TOKENS]; /* by token of the prompt */
    int64_t first, n;      /* the prompt's tokens */
    int64_t band, sink;    /* newest keys that a query which is not kept sees, and first ones */
    int64_t near;          /* newest keys of a block's first query, which all of the block see, beside those kept; 0: none */
} found;

typedef struct options {
    double tau;
    int64_t recent, random, seed;
    bool strict;
} options;

static inline void find_sums(const layer_case *c, const int32_t *probes, int64_t n_probes, found *f) {
    for (int64_t j = 0; j < f->n; j++) f->sums[j] = f->means[j] = 0;
    for (int h = 0; h < c->shape.n_heads; h++)
        for (int64_t i = 0; i < n_probes; i++) {
            double w[2 * MAX_TOKENS], sum = 0;
            int64_t query = f->first + probes[i];
            for (int64_t key = 0; key <= query; key++)
                sum += w[key] = exp(case_dot(c, h, query, key, query, key) / sqrt(c->shape.head_dim));
            for (int64_t key = f->first; key <= query; key++) f->sums[key - f->first] += w[key] / sum;
        }
    for (int64_t j = 0; j < f->n; j++) {
        int n_see = 0;
        for (int64_t i = 0; i < n_probes; i++) n_see += probes[i] >= j;
        f->means[j] = n_see ? f->sums[j] / n_see : 0;
    }
}

static inline void find(const layer_case *c, int64_t first, int64_t n, const options *o, found *f) {
    int32_t scratch[MAX_TOKENS], probes[MAX_TOKENS];
    double left[MAX_TOKENS], total = 0, held = 0;
    *f = (found){.first = first, .n = n};
    uint64_t stream = (uint64_t)first << 16 | (uint64_t)c->layer;
    int64_t n_probes = sac_draw_probes((uint64_t)o->seed, stream, n, o->recent, o->random, scratch, probes);
    find_sums(c, probes, n_probes, f);
    for (int64_t j = 0; j < n; j++) total += left[j] = f->sums[j];
    while (f->p < n && held < o->tau * total) {
        int64_t best = 0;
        for (int64_t j = 0; j < n; j++) best = left[j] > left[best] ? j : best;
        held += left[best];
        left[best] = -1;
        f->p++;
    }
    if (f->p == 0) f->p = 1;
    if (!o->strict) f->means[n - 1] = INFINITY;
    for (int64_t k = 0; k < f->p; k++) {
        int64_t best = -1;
        for (int64_t j = 0; j < n; j++)
            if (!f->kept[j] && (best < 0 || f->means[j] > f->means[best])) best = j;
        f->kept[best] = true;
    }
}

static inline void same_set(layer_case *c, const found *f) {
    sac_important got = c->prefill.policy->important(c->prefill.state);
    int64_t at = 0;
    assert_int_equal(got.n_lists, 1);
    for (int64_t j = 0; j < f->n; j++) {
        bool is_in = at < got.n && got.rows[at] == j;
        if (is_in != f->kept[j])
            fail_msg("token %lld of %lld is %s, p %lld of %lld", (long long)j, (long long)f->n,
                     is_in ? "in" : "out", (long long)got.n, (long long)f->p);
        at += is_in;
    }
    assert_int_equal(at, got.n);
    assert_int_equal(got.n, f->p);
}

static inline int64_t n_kept_at(layer_case *c, const char *line, int64_t n, int32_t *kept) {
    case_method(c, line, "dense");
    case_prompt(c, n);
    sac_important got = c->prefill.policy->important(c->prefill.state);
    memcpy(kept, got.rows, (size_t)got.n * sizeof *kept);
    return got.n;
}

#endif
