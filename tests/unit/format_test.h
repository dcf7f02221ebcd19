/* format_test.h - one layer's keys and values in a storage format, driven as the decoder drives it: prompts
 * through the staging area, then steps. On top of method_test.h's random tokens.
 *
 *   format_case f;
 *   format_open(&f, &shape, seed, "zipvl:tau=0.9", "mixed:gap=32");
 *   format_prompt(&f, 100);  format_step(&f);    outputs in f.c.out
 *   n = format_rows(&f, k, v);                   what the cache holds, as floats
 *   format_close(&f); */
#ifndef SAC_FORMAT_TEST_H
#define SAC_FORMAT_TEST_H

#include "kv_cache.h"
#include "method_test.h"
#include "pack_rows.h"

typedef struct format_case {
    layer_case c;
    sac_kv_choice choice;
    sac_kv_cache cache;
    sac_arena arena;
    int32_t *important; /* of the last prompt, [n_lists][n_important] */
    int64_t n_important;
    int n_lists;
    /* Of a cache in memory that the host must not touch: ops that may, and what opens it to the host. */
    const sac_ops *ops;
    void (*let_in)(bool open);
} format_case;

/* Its packed rows in pages of the pool, where there is one. */
static inline void format_open_in(format_case *f, const case_shape *s, uint64_t seed, const char *prefill,
                                  const char *kv, sac_page_pool *pages) {
    sac_error err = {0};
    memset(f, 0, sizeof *f);
    case_open(&f->c, s, seed);
    case_method(&f->c, prefill, "dense");
    assert_ok(sac_kv_choice_parse(&f->choice, kv, &f->c.shape, &err), err);
    assert_ok(sac_kv_cache_open(&f->cache, &f->choice, &f->c.shape, 0, &err), err);
    if (pages) sac_kv_cache_use_pages(&f->cache, pages);
    sac_arena plan = sac_arena_measure();
    sac_kv_cache_take(&f->cache, &plan, &plan);
    assert_ok(sac_kv_cache_reserve(&f->cache, &err), err);
    sac_kv_cache_lend(&f->cache, &plan);
    assert_ok(sac_arena_open(&f->arena, plan.used_bytes, &err), err);
    sac_kv_cache_take(&f->cache, &f->arena, &f->arena);
    sac_kv_cache_lend(&f->cache, &f->arena);
    assert_int_equal(f->arena.used_bytes, plan.used_bytes);
    sac_kv_cache_clear(&f->cache);
    f->important = malloc((size_t)(s->n_ctx * s->n_kv_heads) * sizeof *f->important);
}

static inline void format_open(format_case *f, const case_shape *s, uint64_t seed, const char *prefill,
                               const char *kv) {
    format_open_in(f, s, seed, prefill, kv, NULL);
}

static inline void format_close(format_case *f) {
    free(f->important);
    sac_kv_cache_free(&f->cache);
    sac_arena_free(&f->arena);
    case_close(&f->c);
}

/* The rows that a prompt of n tokens gets. */
static inline sac_kv_view format_begin(format_case *f, int64_t n, int64_t *past) {
    const sac_ops *ops = f->ops ? f->ops : &f->c.ops;
    sac_kv_view view;
    if (f->let_in) f->let_in(false);
    assert_int_equal(sac_kv_cache_begin_layer(&f->cache, ops, &f->c.stream, f->c.layer, n, &view, past),
                     SAC_OK);
    if (f->let_in) f->let_in(true);
    return view;
}

/* n tokens into the cache's view; their queries in c.q. */
static inline sac_layer_attention format_tokens(format_case *f, int64_t n, bool step) {
    float x[SAC_KV_MAX_D];
    int64_t past, own = f->c.n_rows;
    sac_layer_attention a = case_tokens(&f->c, n);
    sac_kv_view view =
        step ? sac_kv_cache_begin_step(&f->cache, f->c.layer, n, &past) : format_begin(f, n, &past);
    for (int head = 0; head < f->c.shape.n_kv_heads; head++)
        for (int64_t i = 0; i < n; i++) {
            sac_kv_load(&a.kv, a.kv.k, head, own + i, x);
            sac_kv_save(&view, view.k, head, past + i, x);
            sac_kv_load(&a.kv, a.kv.v, head, own + i, x);
            sac_kv_save(&view, view.v, head, past + i, x);
        }
    a.kv = view;
    a.past = past;
    return a;
}

static inline void format_finish(format_case *f, int64_t n) {
    f->c.n += n;
    f->c.n_rows += n;
    f->c.out = f->c.q;
    f->cache.n_rows = f->c.n;
}

static inline void format_prompt(format_case *f, int64_t n) {
    sac_layer_attention a = format_tokens(f, n, false);
    assert_int_equal(sac_prefill_attend(&f->c.prefill, &a), SAC_OK);
    sac_important important = sac_prefill_important(&f->c.prefill);
    f->n_important = important.n;
    f->n_lists = important.n_lists;
    if (important.rows)
        memcpy(f->important, important.rows,
               (size_t)(important.n * important.n_lists) * sizeof *f->important);
    assert_int_equal(sac_kv_cache_end_layer(&f->cache, &a, a.past + n, &important), SAC_OK);
    format_finish(f, n);
}

static inline void format_step(format_case *f) {
    const sac_kv_packing *packing = f->choice.format->packing;
    sac_layer_attention a = format_tokens(f, 1, true);
    int64_t left = a.past + 1;
    if (packing)
        assert_int_equal(packing->attend(f->cache.packing, &a, &left), SAC_OK);
    else
        assert_int_equal(sac_decode_attend(&f->c.decode, &a, &f->c.mass), SAC_OK);
    f->cache.layer_rows[f->c.layer] = left;
    format_finish(f, 1);
}

/* Everything that the cache holds, in order: [n_kv_heads][n_ctx][head_dim]. */
static inline int64_t format_rows(format_case *f, float *k, float *v) {
    const sac_attention_shape *s = &f->c.shape;
    int64_t n;
    sac_kv_view view = format_begin(f, 0, &n);
    for (int head = 0; head < s->n_kv_heads; head++)
        for (int64_t i = 0; i < n; i++) {
            sac_kv_load(&view, view.k, head, i, k + (head * s->n_ctx + i) * s->head_dim);
            sac_kv_load(&view, view.v, head, i, v + (head * s->n_ctx + i) * s->head_dim);
        }
    return n;
}

/* Keys and values as they were before packing, rotated: [n_kv_heads][n_ctx][head_dim]. */
static inline const float *format_true_keys(const format_case *f) {
    return (const float *)(const void *)f->c.kv;
}
static inline const float *format_true_values(const format_case *f) {
    const sac_attention_shape *s = &f->c.shape;
    return format_true_keys(f) + s->n_ctx * s->n_kv_heads * s->head_dim;
}

/* Attention of the token `query` over n rows of k and v, [n_kv_heads][n_ctx][head_dim]. */
static inline void format_oracle(const format_case *f, int64_t query, const float *k, const float *v,
                                 int64_t n, double *want) {
    const sac_attention_shape *s = &f->c.shape;
    int d = s->head_dim, group = s->n_heads / s->n_kv_heads;
    for (int h = 0; h < s->n_heads; h++) {
        double q[SAC_KV_MAX_D], sum = 0, *o = want + h * d;
        case_rotate(&f->c, f->c.raw_q + (query * s->n_heads + h) * d, query, q);
        for (int c = 0; c < d; c++) o[c] = 0;
        for (int64_t i = 0; i < n; i++) {
            const float *key = k + (h / group * s->n_ctx + i) * d,
                        *value = v + (h / group * s->n_ctx + i) * d;
            double dot = 0;
            for (int c = 0; c < d; c++) dot += q[c] * (double)key[c];
            double w = exp(dot / sqrt((double)d));
            sum += w;
            for (int c = 0; c < d; c++) o[c] += w * (double)value[c];
        }
        for (int c = 0; c < d; c++) o[c] /= sum;
    }
}

#endif
