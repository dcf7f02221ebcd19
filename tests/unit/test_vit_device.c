/* The tower on a device, without one (closed_device.h): the features of the same tower on the CPU. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "closed_device.h"
#include "test.h"
#include "vit.h"

#include <math.h>
#include <stdlib.h>

enum { TILES = 3, SIDE = 28, PATCH = 7, HIDDEN = 32, HEADS = 2, WIDE = 48, LAYERS = 3 };

static uint64_t random_state = 5;
static sac_arena weights;

static float *floats(int64_t n) {
    float *x = sac_arena_take(&weights, (size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = 0.3f * test_rand_float(&random_state);
    return x;
}
static sac_tensor matrix(int64_t n, int64_t k) {
    return (sac_tensor){floats(n * k), SAC_DTYPE_F32, 2, {n, k}};
}

static void make_tower(sac_vit *v, sac_vit_layer *layers, bool keep_class) {
    sac_vit_config *c = &v->config;
    *c = (sac_vit_config){SIDE, PATCH,  HIDDEN,    LAYERS, HEADS, WIDE, 1e-5f, SAC_ACT_QUICK_GELU,
                          2,    {0, 3}, keep_class};
    int64_t tokens = sac_vit_grid(c) * sac_vit_grid(c) + 1;
    v->patch_embed = matrix(HIDDEN, 3 * PATCH * PATCH);
    v->class_embed = floats(HIDDEN);
    v->pos_embed = floats(tokens * HIDDEN);
    v->pre_ln_w = floats(HIDDEN);
    v->pre_ln_b = floats(HIDDEN);
    v->layers = layers;
    v->start_rows = NULL;
    for (int i = 0; i < LAYERS; i++) {
        sac_vit_layer *l = &layers[i];
        const float **vectors[] = {&l->ln1_w,  &l->ln1_b,  &l->ln2_w,  &l->ln2_b,   &l->q_bias,
                                   &l->k_bias, &l->v_bias, &l->o_bias, &l->fc2_bias};
        sac_tensor *square[] = {&l->q, &l->k, &l->v, &l->o};
        for (size_t j = 0; j < SAC_COUNT(vectors); j++) *vectors[j] = floats(HIDDEN);
        for (size_t j = 0; j < SAC_COUNT(square); j++) *square[j] = matrix(HIDDEN, HIDDEN);
        l->qkv = (sac_tensor){0};
        l->fc1 = matrix(WIDE, HIDDEN);
        l->fc1_bias = floats(WIDE);
        l->fc2 = matrix(HIDDEN, WIDE);
    }
}

/* As the device's weights are: q, k and v as one matrix, zeros behind the rows of patches. */
static void lay_out_for_a_device(sac_vit *v) {
    for (int i = 0; i < LAYERS; i++) {
        sac_vit_layer *l = &v->layers[i];
        sac_tensor *parts[] = {&l->q, &l->k, &l->v};
        const float *biases[] = {l->q_bias, l->k_bias, l->v_bias};
        l->qkv = matrix(3 * HIDDEN, HIDDEN);
        float *w = (float *)(uintptr_t)l->qkv.data, *b = floats(3 * HIDDEN);
        for (int p = 0; p < 3; p++) {
            memcpy(w + p * HIDDEN * HIDDEN, parts[p]->data, HIDDEN * HIDDEN * sizeof *w);
            memcpy(b + p * HIDDEN, biases[p], HIDDEN * sizeof *b);
        }
        l->qkv_bias = b;
        memset(parts[0], 0, sizeof *parts[0]); /* nobody looks at them */
    }
    int64_t cols = v->patch_embed.dim[1],
            aligned = (cols + SAC_VIT_ALIGN - 1) / SAC_VIT_ALIGN * SAC_VIT_ALIGN;
    assert_true(aligned > cols);
    sac_tensor wide = matrix(HIDDEN, aligned);
    float *w = (float *)(uintptr_t)wide.data;
    memset(w, 0, (size_t)(HIDDEN * aligned) * sizeof *w);
    for (int64_t i = 0; i < HIDDEN; i++)
        memcpy(w + i * aligned, (const float *)v->patch_embed.data + i * cols, (size_t)cols * sizeof *w);
    v->patch_embed = wide;
}

/* Some tiles are through before others: bit for bit what all at once are. */
static void stretches_equal(const sac_vit *v, sac_vit_state *s, const sac_ops *ops, const sac_stream *stream,
                            const uint8_t *tiles, const float mean[3], const float std[3], sac_mat features,
                            const float *want) {
    const size_t n = (size_t)(features.rows * features.cols);
    for (int together = 0; together <= LAYERS; together++) {
        memset(features.data, 0xff, n * sizeof *want);
        assert_int_equal(sac_vit_begin(v, s, ops, stream, tiles, TILES, mean, std, together, features),
                         SAC_OK);
        for (int first = 0, some = 2; first < TILES; first += some, some = 1)
            assert_int_equal(sac_vit_end(v, s, ops, stream, first, some, together, features), SAC_OK);
        assert_memory_equal(features.data, want, n * sizeof *want);
    }
}

static void features_equal(void **state) {
    static const float mean[3] = {0.4f, 0.5f, 0.45f}, std[3] = {0.2f, 0.3f, 0.25f};
    bool keep_class = *(bool *)*state;
    sac_error err;
    sac_pool *pool;
    sac_arena arena;
    sac_stream stream;
    sac_ops ops, guarded;
    sac_vit v;
    sac_vit_layer layers[LAYERS];
    sac_vit_state here, there;
    assert_ok(sac_pool_create(&pool, 1, &err), err);
    assert_ok(sac_arena_open(&arena, (size_t)1 << 26, &err), err);
    assert_ok(sac_arena_open(&weights, (size_t)1 << 25, &err), err);
    assert_ok(sac_stream_init(&stream, pool, &arena, 1 << 20, &err), err);
    sac_ops_init_ref(&ops);
    make_tower(&v, layers, keep_class);
    const sac_vit_config *c = &v.config;
    uint8_t tiles[TILES * SIDE * SIDE * 3];
    for (size_t i = 0; i < sizeof tiles; i++)
        tiles[i] = (uint8_t)(255 * fabsf(test_rand_float(&random_state)));
    int64_t rows = (int64_t)TILES * sac_vit_rows(c), cols = sac_vit_cols(c),
            tokens = sac_vit_grid(c) * sac_vit_grid(c) + 1;
    float *want = calloc((size_t)(rows * cols), sizeof *want);
    assert_ok(sac_vit_state_init(&here, c, TILES, &arena, &err), err);
    assert_int_equal(
        sac_vit_forward(&v, &here, &ops, &stream, tiles, TILES, mean, std, sac_mat_f32(want, rows, cols)),
        SAC_OK);

    lay_out_for_a_device(&v);
    closed_let_in(true);
    memset(closed_region, 0xff, CLOSED_BYTES);
    sac_arena closed = sac_arena_over(closed_region, CLOSED_BYTES), measure = sac_arena_measure();
    float *got = sac_arena_take(&closed, (size_t)(rows * cols) * sizeof *got);
    float *start = sac_arena_take(&closed, (size_t)(tokens * HIDDEN) * sizeof *start);
    uint8_t *tiles_there = sac_arena_take(&closed, sizeof tiles);
    memcpy(tiles_there, tiles, sizeof tiles);
    for (int64_t i = 0; i < tokens * HIDDEN; i++)
        start[i] = v.pos_embed[i] + (i < HIDDEN ? v.class_embed[i] : 0);
    v.start_rows = start;
    size_t before = closed.used_bytes;
    sac_stream device_stream = stream;
    device_stream.device = &closed_device;
    assert_ok(sac_vit_state_init_device(&there, c, TILES, SAC_DTYPE_F32, NULL, &measure, &err), err);
    assert_ok(sac_vit_state_init_device(&there, c, TILES, SAC_DTYPE_F32, &device_stream, &closed, &err), err);
    assert_int_equal(closed.used_bytes - before, measure.used_bytes);
    closed_let_in(false);
    guarded = closed_ops(&ops);
    assert_int_equal(sac_vit_forward(&v, &there, &guarded, &stream, tiles_there, TILES, mean, std,
                                     sac_mat_f32(got, rows, cols)),
                     SAC_OK);
    closed_let_in(true);
    for (int64_t i = 0; i < rows * cols; i++)
        assert_true(fabsf(got[i] - want[i]) <= 1e-5f * (1 + fabsf(want[i])));
    memcpy(want, got, (size_t)(rows * cols) * sizeof *want);
    stretches_equal(&v, &there, &ops, &stream, tiles_there, mean, std, sac_mat_f32(got, rows, cols), want);
    free(want);
    sac_arena_free(&weights);
    sac_arena_free(&arena);
    sac_pool_free(pool);
}

int main(void) {
    static bool without = false, with = true;
    if (!closed_open()) return 1;
    const struct CMUnitTest tests[] = {
        {"features without the class token", features_equal, NULL, NULL, &without},
        {"features with the class token", features_equal, NULL, NULL, &with},
    };
    return cmocka_run_group_tests_name("the tower on a device", tests, NULL, NULL);
}
