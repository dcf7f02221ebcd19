/* window_oracle.h - which rows the last queries of a prompt look at, in fp64 from raw queries and keys: what
 * SnapKV and PyramidKV keep of a layer. */
#ifndef SAC_WINDOW_ORACLE_H
#define SAC_WINDOW_ORACLE_H

#include "method_test.h"

enum { MAX_TOKENS = 128, MAX_HEADS = 8, MAX_COLS = 2 * 128 };

/* The tokens that each query head may read, in order; all later ones are added as they come. */
typedef struct window_rows {
    bool has[MAX_HEADS][MAX_TOKENS];
    int64_t n_prompt;
} window_rows;

static inline bool window_kept(void *ctx, int h, int64_t query, int64_t key) {
    const window_rows *k = ctx;
    (void)query;
    return key >= k->n_prompt || k->has[h][key];
}

/* Weights that the window's queries of one head give, added to sums. Keys are those of `k` of an earlier
 * turn, or all. */
static inline void window_observe(const layer_case *c, const window_rows *k, int h, int64_t n, int64_t window,
                                  double *sums) {
    double w[MAX_TOKENS];
    for (int64_t query = n - window; query < n; query++) {
        double sum = 0;
        for (int64_t key = 0; key <= query; key++) {
            bool visible = !k || window_kept((void *)k, h, query, key);
            w[key] = visible ? exp(case_dot(c, h, query, key, query, key) / sqrt(c->shape.head_dim)) : 0;
            sum += w[key];
        }
        for (int64_t key = 0; key <= query; key++) sums[key] += w[key] / sum;
    }
}

/* The cap rows that a layer keeps of n tokens, of which `before` tells what an earlier turn left: the window's
 * and the best before it. */
static inline void window_choose(const layer_case *c, int64_t n, int64_t cap, int64_t window, int kernel,
                                 bool max_pool, bool per_head, const window_rows *before, window_rows *out) {
    int group = c->shape.n_heads / c->shape.n_kv_heads, step = per_head ? 1 : group;
    memset(out, 0, sizeof *out);
    out->n_prompt = n;
    for (int first = 0; first < c->shape.n_heads; first += step) {
        double sums[MAX_TOKENS] = {0}, pooled[MAX_TOKENS], row_sum[MAX_TOKENS];
        int64_t token[MAX_TOKENS], n_rows = 0;
        for (int h = first; h < first + step; h++) window_observe(c, before, h, n, window, sums);
        for (int64_t j = 0; j < n - window; j++) /* pooling goes over rows, dropped tokens have none */
            if (!before || window_kept((void *)before, first, n, j)) {
                row_sum[n_rows] = sums[j];
                token[n_rows++] = j;
            }
        for (int64_t j = 0; j < n_rows; j++) {
            double sum = 0, max = 0;
            for (int64_t i = j - kernel / 2; i <= j + kernel / 2; i++)
                if (i >= 0 && i < n_rows) {
                    sum += row_sum[i];
                    max = fmax(max, row_sum[i]);
                }
            pooled[j] = max_pool ? max : sum / kernel;
        }
        for (int64_t picked = 0; picked < cap - window; picked++) {
            int64_t best = -1;
            for (int64_t j = 0; j < n_rows; j++)
                if (!out->has[first][token[j]] && (best < 0 || pooled[j] > pooled[best] + 1e-7)) best = j;
            out->has[first][token[best]] = true;
        }
        for (int64_t j = n - window; j < n; j++) out->has[first][j] = true;
        for (int h = first + 1; h < first + step; h++)
            memcpy(out->has[h], out->has[first], sizeof out->has[h]);
    }
}

static inline void window_expect_steps(layer_case *c, int64_t n_steps, window_rows *k) {
    double want[MAX_HEADS * 64];
    for (int64_t i = 0; i < n_steps; i++) {
        case_step(c);
        case_oracle(c, c->n - 1, window_kept, NULL, k, want);
        case_expect(c, 0, want, 3e-6);
    }
}

#endif
