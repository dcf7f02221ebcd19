/* captured.h - a layer_case with a trained model's queries, keys and values in place of random ones: random attention is even, a
 * model's is not (tools/make_captured_golden.py: a fifth of the keys hold nearly all of a query's weight). */
#ifndef SAC_TESTS_CAPTURED_H
#define SAC_TESTS_CAPTURED_H

#include "method_test.h"
#include "safetensors.h"

enum { CAPTURED_HEADS = 3, CAPTURED_KV_HEADS = 1, CAPTURED_D = 64, CAPTURED_TOKENS = 141 };

static inline void captured_take(const sac_checkpoint *file, const char *name, int64_t n, float *x) {
    const sac_checkpoint_tensor *t = sac_checkpoint_find(file, name);
    assert_non_null(t);
    assert_int_equal(t->n_bytes, sac_dtype_row_bytes((sac_dtype)t->dtype, n));
    sac_checkpoint_to_f32(x, t, n);
}

/* s says the rest of the shape; its heads and context are those of the file. Values are divided by the largest, so that tests'
 * tolerances hold. */
static inline void case_captured(layer_case *c, case_shape s) {
    sac_checkpoint file = {0};
    sac_error err;
    float theta, most = 0;
    s.n_heads = CAPTURED_HEADS, s.n_kv_heads = CAPTURED_KV_HEADS, s.head_dim = CAPTURED_D,
    s.n_ctx = CAPTURED_TOKENS;
    case_open(c, &s, 1);
    assert_ok(sac_safetensors_open_file(&file, "tests/golden/captured.safetensors", &err), err);
    const int64_t n_q = CAPTURED_TOKENS * CAPTURED_HEADS * CAPTURED_D,
                  n_kv = CAPTURED_TOKENS * CAPTURED_KV_HEADS * CAPTURED_D;
    captured_take(&file, "q", n_q, c->raw_q);
    captured_take(&file, "k", n_kv, c->raw_k);
    captured_take(&file, "v", n_kv, c->raw_v);
    captured_take(&file, "theta", 1, &theta);
    sac_checkpoint_free(&file);
    for (int64_t i = 0; i < n_kv; i++) most = fmaxf(most, fabsf(c->raw_v[i]));
    for (int64_t i = 0; i < n_kv; i++) c->raw_v[i] /= most;
    for (int p = 0; p < CAPTURED_TOKENS; p++)
        for (int i = 0; i < CAPTURED_D / 2; i++) {
            double angle = p * pow((double)theta, -2.0 * i / CAPTURED_D);
            c->cos_sin[p * CAPTURED_D + 2 * i] = (float)cos(angle);
            c->cos_sin[p * CAPTURED_D + 2 * i + 1] = (float)sin(angle);
        }
}

#endif
