/* The tower on a device, without one (closed_device.h): the features of the same tower on the CPU. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "clip.h"
#include "closed_device.h"
#include "test.h"

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
static sac_weight matrix(int64_t n, int64_t k) {
    return sac_weight_of((sac_tensor){floats(n * k), SAC_DTYPE_F32, 2, {n, k}});
}

/* Of InternViT: squares of patches, scales of what is added, RMS norms, norms of queries and keys, one behind the layers. */
static void add_intern_parts(sac_tower *v) {
    sac_clip_weights *w = v->weights;
    v->config.kind = &sac_tower_internvit;
    v->config.merge_size = 2;
    w->patch_bias = floats(HIDDEN);
    w->final_w = floats(HIDDEN);
    w->final_b = floats(HIDDEN);
    w->pre_ln_w = w->pre_ln_b = NULL;
    for (int i = 0; i < LAYERS; i++) {
        sac_clip_layer *l = (sac_clip_layer *)v->layers + i;
        const float **vectors[] = {&l->q_norm, &l->k_norm, &l->scale1, &l->scale2};
        for (size_t j = 0; j < SAC_COUNT(vectors); j++) *vectors[j] = floats(HIDDEN);
        l->ln1_b = l->ln2_b = NULL;
    }
}

typedef struct variant {
    bool keep_class, intern;
} variant;

static void make_tower(sac_tower *v, sac_clip_weights *w, sac_clip_layer *layers, const variant *kind) {
    sac_tower_config *c = &v->config;
    *c = (sac_tower_config){.kind = &sac_tower_clip,
                            .image_size = SIDE,
                            .patch_size = PATCH,
                            .hidden = HIDDEN,
                            .n_layers = LAYERS,
                            .n_heads = HEADS,
                            .intermediate = WIDE,
                            .norm_eps = 1e-5f,
                            .act = SAC_ACT_QUICK_GELU,
                            .n_feature_layers = 2,
                            .feature_layer = {0, 3},
                            .keep_class = kind->keep_class};
    int64_t tokens = sac_clip_tokens(c);
    memset(w, 0, sizeof *w);
    memset(layers, 0, LAYERS * sizeof *layers);
    v->weights = w;
    v->layers = layers;
    w->patch_embed = matrix(HIDDEN, 3 * PATCH * PATCH);
    w->class_embed = floats(HIDDEN);
    w->pos_embed = floats(tokens * HIDDEN);
    w->pre_ln_w = floats(HIDDEN);
    w->pre_ln_b = floats(HIDDEN);
    for (int i = 0; i < LAYERS; i++) {
        sac_clip_layer *l = &layers[i];
        const float **vectors[] = {&l->ln1_w,  &l->ln1_b,  &l->ln2_w,  &l->ln2_b,   &l->q_bias,
                                   &l->k_bias, &l->v_bias, &l->o_bias, &l->fc2_bias};
        sac_weight *square[] = {&l->q, &l->k, &l->v, &l->o};
        for (size_t j = 0; j < SAC_COUNT(vectors); j++) *vectors[j] = floats(HIDDEN);
        for (size_t j = 0; j < SAC_COUNT(square); j++) *square[j] = matrix(HIDDEN, HIDDEN);
        l->fc1 = matrix(WIDE, HIDDEN);
        l->fc1_bias = floats(WIDE);
        l->fc2 = matrix(HIDDEN, WIDE);
    }
    if (kind->intern) add_intern_parts(v);
}

/* As the device's weights are: q, k and v as one matrix, zeros behind the rows of patches. */
static void lay_out_for_a_device(sac_clip_weights *v, sac_clip_layer *layers) {
    for (int i = 0; i < LAYERS; i++) {
        sac_clip_layer *l = &layers[i];
        sac_weight *parts[] = {&l->q, &l->k, &l->v};
        const float *biases[] = {l->q_bias, l->k_bias, l->v_bias};
        l->qkv = matrix(3 * HIDDEN, HIDDEN);
        float *w = (float *)(uintptr_t)l->qkv.tensor.data, *b = floats(3 * HIDDEN);
        for (int p = 0; p < 3; p++) {
            memcpy(w + p * HIDDEN * HIDDEN, parts[p]->tensor.data, HIDDEN * HIDDEN * sizeof *w);
            memcpy(b + p * HIDDEN, biases[p], HIDDEN * sizeof *b);
        }
        l->qkv_bias = b;
        memset(parts[0], 0, sizeof *parts[0]); /* nobody looks at them */
    }
    int64_t cols = v->patch_embed.tensor.dim[1],
            aligned = (cols + SAC_CLIP_ALIGN - 1) / SAC_CLIP_ALIGN * SAC_CLIP_ALIGN;
    assert_true(aligned > cols);
    sac_weight wide = matrix(HIDDEN, aligned);
    float *w = (float *)(uintptr_t)wide.tensor.data;
    memset(w, 0, (size_t)(HIDDEN * aligned) * sizeof *w);
    for (int64_t i = 0; i < HIDDEN; i++)
        memcpy(w + i * aligned, (const float *)v->patch_embed.tensor.data + i * cols,
               (size_t)cols * sizeof *w);
    v->patch_embed = wide;
}

static void features_equal(void **state) {
    sac_error err;
    sac_pool *pool;
    sac_arena arena;
    sac_stream stream;
    sac_ops ops, guarded;
    sac_tower v;
    sac_clip_weights w;
    sac_clip_layer layers[LAYERS];
    sac_tower_state here, there;
    assert_ok(sac_pool_create(&pool, 1, &err), err);
    assert_ok(sac_arena_open(&arena, (size_t)1 << 26, &err), err);
    assert_ok(sac_arena_open(&weights, (size_t)1 << 25, &err), err);
    assert_ok(sac_stream_init(&stream, pool, &arena, 1 << 20, &err), err);
    sac_ops_init_ref(&ops);
    make_tower(&v, &w, layers, *state);
    const sac_tower_config *c = &v.config;
    uint8_t pixels[TILES * SIDE * SIDE * 3];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(255 * fabsf(test_rand_float(&random_state)));
    int32_t starts[TILES + 1];
    sac_grid_segments((sac_grid){1, SIDE / PATCH, SIDE / PATCH}, TILES, starts);
    sac_patch_rows in = {.pixels = pixels,
                         .segment_start = starts,
                         .n_segments = TILES,
                         .mean = {0.4f, 0.5f, 0.45f},
                         .std = {0.2f, 0.3f, 0.25f}};
    int64_t rows = (int64_t)TILES * sac_clip_kept(c), cols = sac_tower_cols(c), tokens = sac_clip_tokens(c);
    float *want = calloc((size_t)(rows * cols), sizeof *want);
    assert_ok(sac_tower_state_take(&here, c, TILES, &arena, &err), err);
    assert_int_equal(
        sac_tower_encode(&(sac_tower_run){&v, &here, &ops, &stream}, &in, sac_mat_f32(want, rows, cols)),
        SAC_OK);

    lay_out_for_a_device(&w, layers);
    closed_let_in(true);
    memset(closed_region, 0xff, CLOSED_BYTES);
    sac_arena closed = sac_arena_over(closed_region, CLOSED_BYTES), measure = sac_arena_measure(),
              host = sac_arena_measure();
    float *got = sac_arena_take(&closed, (size_t)(rows * cols) * sizeof *got);
    float *start = sac_arena_take(&closed, (size_t)(tokens * HIDDEN) * sizeof *start);
    uint8_t *pixels_there = sac_arena_take(&closed, sizeof pixels);
    memcpy(pixels_there, pixels, sizeof pixels);
    in.pixels = pixels_there;
    for (int64_t i = 0; i < tokens * HIDDEN; i++) {
        const float *more = i < HIDDEN ? w.class_embed : w.patch_bias;
        start[i] = w.pos_embed[sac_clip_position(c, (int)(i / HIDDEN)) * HIDDEN + i % HIDDEN] +
                   (more ? more[i % HIDDEN] : 0);
    }
    w.start_rows = start;
    size_t before = closed.used_bytes;
    sac_stream device_stream = stream;
    device_stream.device = &closed_device;
    assert_ok(sac_tower_state_take_device(&there, c, TILES, SAC_DTYPE_F32, NULL, &measure, &host, &err), err);
    assert_ok(
        sac_tower_state_take_device(&there, c, TILES, SAC_DTYPE_F32, &device_stream, &closed, &arena, &err),
        err);
    assert_int_equal(closed.used_bytes - before, measure.used_bytes);
    closed_let_in(false);
    guarded = closed_ops(&ops);
    sac_tower_run run = {&v, &there, &guarded, &stream};
    assert_int_equal(sac_tower_encode(&run, &in, sac_mat_f32(got, rows, cols)), SAC_OK);
    closed_let_in(true);
    for (int64_t i = 0; i < rows * cols; i++)
        assert_true(fabsf(got[i] - want[i]) <= 1e-5f * (1 + fabsf(want[i])));
    closed_let_in(false);
    free(want);
    sac_arena_free(&weights);
    sac_arena_free(&arena);
    sac_pool_free(pool);
}

int main(void) {
    static variant without = {false, false}, with = {true, false}, intern = {false, true};
    if (!closed_open()) return 1;
    const struct CMUnitTest tests[] = {
        {"features without the class token", features_equal, NULL, NULL, &without},
        {"features with the class token", features_equal, NULL, NULL, &with},
        {"features in squares", features_equal, NULL, NULL, &intern},
    };
    return cmocka_run_group_tests_name("the tower on a device", tests, NULL, NULL);
}
