/* mixed_test.h - one layer in the mixed cache, and what a step of it should give, in fp64. */
#ifndef SAC_MIXED_TEST_H
#define SAC_MIXED_TEST_H

#include "blocks.h"
#include "format_test.h"

enum { N_CTX = 700, MAX_COLS = 16 * 128 };

static const struct {
    int n_heads, n_kv_heads, d;
} SHAPES[] = {{4, 4, 64}, {6, 2, 64}, {4, 1, 64}, {7, 1, 80}, {8, 1, 128}, {3, 3, 16}, {2, 1, 24}};

static inline case_shape shape_of(size_t i, bool use_cpu) {
    return (case_shape){.n_heads = SHAPES[i].n_heads,
                        .n_kv_heads = SHAPES[i].n_kv_heads,
                        .head_dim = SHAPES[i].d,
                        .n_ctx = N_CTX,
                        .use_cpu = use_cpu};
}

/* The state begins with its blocks in both formats that have them. */
static inline sac_kv_blocks *blocks_of(const format_case *f) {
    return f->cache.packing;
}

static const sac_kv_block_layer *layer_of(const format_case *f) {
    return &blocks_of(f)->layer[f->c.layer];
}

/* What a step reads, in the order that it lies, not rounded to halves: [n_kv_heads][N_CTX][d]. */
static inline int64_t exact_rows(format_case *f, float *k, float *v) {
    const sac_kv_block_layer *l = layer_of(f);
    int d = f->c.shape.head_dim;
    int64_t n = 0;
    for (int i = 0; i < l->n_parts; n += l->part[i++].n)
        for (int head = 0; head < f->c.shape.n_kv_heads; head++)
            for (int64_t row = 0; row < l->part[i].n; row++) {
                sac_packed_get_key(&l->part[i], head, row, k + (head * N_CTX + n + row) * d);
                sac_packed_get_value(&l->part[i], head, row, v + (head * N_CTX + n + row) * d);
            }
    int64_t n_tail;
    sac_kv_view tail = sac_kv_cache_begin_step(&f->cache, f->c.layer, 0, &n_tail);
    for (int head = 0; head < f->c.shape.n_kv_heads; head++)
        for (int64_t row = 0; row < n_tail; row++) {
            sac_kv_load(&tail, tail.k, head, row, k + (head * N_CTX + n + row) * d);
            sac_kv_load(&tail, tail.v, head, row, v + (head * N_CTX + n + row) * d);
        }
    return n + n_tail;
}

static float rows_k[8 * N_CTX * 128], rows_v[8 * N_CTX * 128];

/* A step's output over what was stored before it and its own token's half-rounded row. */
static inline void step_as_oracle(format_case *f, double tolerance) {
    double want[MAX_COLS];
    const sac_attention_shape *s = &f->c.shape;
    int64_t n = exact_rows(f, rows_k, rows_v), token = f->c.n;
    format_step(f);
    for (int head = 0; head < s->n_kv_heads; head++)
        for (int c = 0; c < s->head_dim; c++) {
            int64_t from = (head * s->n_ctx + token) * s->head_dim + c,
                    to = (head * N_CTX + n) * s->head_dim + c;
            rows_k[to] = sac_f16_to_f32(sac_f32_to_f16(format_true_keys(f)[from]));
            rows_v[to] = sac_f16_to_f32(sac_f32_to_f16(format_true_values(f)[from]));
        }
    format_oracle(f, token, rows_k, rows_v, n + 1, want);
    case_expect(&f->c, 0, want, tolerance);
}

#endif
