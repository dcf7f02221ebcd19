/* A copy of a model's decoder on a device: the model on the host stays as it is, and may be copied again. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "device_weights.h"

#include "block_numbers.h"
#include "clip.h"
#include "closed_device.h"
#include "cuda/weights/block_layout.h"
#include "place_weight.h"
#include "quants.h"
#include "qwen2vl.h"
#include "ref/weights/code_tables.h"
#include "test.h"

static size_t n_taken;

static sac_status take(const sac_device *d, size_t n_bytes, void **out, sac_error *err) {
    (void)d;
    *out = closed_region + n_taken;
    n_taken += (n_bytes + 255) / 256 * 256;
    return n_taken <= CLOSED_BYTES ? SAC_OK : sac_fail(err, SAC_NO_MEMORY, "the closed region is full");
}

static int n_freed;

static void give_back(const sac_device *d, void *p) {
    (void)d;
    assert_in_range((uint8_t *)p - closed_region, 0, CLOSED_BYTES - 1);
    n_freed++;
}

static sac_status no_room(const sac_device *d, size_t n_bytes, void **out, sac_error *err) {
    (void)d;
    *out = NULL;
    return sac_fail(err, SAC_NO_MEMORY, "no room for %zu bytes", n_bytes);
}

typedef struct fixture {
    sac_loaded_model model;
    sac_decoder before;
    sac_decoder_layer *layers_before;
    sac_device device;
    sac_stream stream;
} fixture;

static size_t layer_bytes(const fixture *f) {
    return (size_t)f->before.config.n_layers * sizeof *f->layers_before;
}

static int set_up(void **state) {
    sac_error err;
    fixture *f = calloc(1, sizeof *f);
    assert_true(f && closed_open());
    *state = f;
    n_taken = 0, n_freed = 0;
    assert_ok(sac_loaded_model_open(&f->model, "models/demo", NULL, NULL, &err), err);
    f->before = f->model.decoder;
    f->layers_before = malloc(layer_bytes(f));
    memcpy(f->layers_before, f->model.decoder.layers, layer_bytes(f));
    f->device = closed_device;
    f->device.alloc = take;
    f->device.free = give_back;
    f->stream = (sac_stream){.device = &f->device};
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    munmap(closed_region, CLOSED_BYTES);
    sac_loaded_model_free(&f->model);
    free(f->layers_before);
    free(f);
    return 0;
}

static void assert_host_is_unchanged(const fixture *f) {
    assert_memory_equal(&f->model.decoder, &f->before, sizeof f->before);
    assert_memory_equal(f->model.decoder.layers, f->layers_before, layer_bytes(f));
}

/* The matrix lies on the device and holds what the host's holds. */
static void assert_copied(const sac_stream *s, const sac_weight *there, const sac_weight *here) {
    size_t n_bytes = sac_weight_part_bytes(&here->tensor);
    uint8_t *bytes = malloc(n_bytes);
    assert_ptr_not_equal(there->tensor.data, here->tensor.data);
    assert_int_equal(s->device->download(s, bytes, there->tensor.data, n_bytes), SAC_OK);
    assert_memory_equal(bytes, here->tensor.data, n_bytes);
    free(bytes);
}

static void assert_same_decoder(const fixture *f, const sac_device_decoder *d) {
    assert_copied(&f->stream, &d->decoder.embed, &f->before.embed);
    assert_copied(&f->stream, &d->decoder.head, &f->before.head);
    for (int i = 0; i < f->before.config.n_layers; i++) {
        assert_copied(&f->stream, &d->decoder.layers[i].q, &f->layers_before[i].q);
        assert_copied(&f->stream, &d->decoder.layers[i].down, &f->layers_before[i].down);
    }
}

static void test_two_copies(void **state) {
    fixture *f = *state;
    sac_device_decoder first, second;
    sac_error err;
    assert_ok(sac_decoder_to_device(&f->model, f->model.dtype, &f->stream, &first, NULL, NULL, &err), err);
    assert_host_is_unchanged(f);
    assert_ok(sac_decoder_to_device(&f->model, f->model.dtype, &f->stream, &second, NULL, NULL, &err), err);
    assert_host_is_unchanged(f);
    assert_ptr_not_equal(first.decoder.embed.tensor.data, second.decoder.embed.tensor.data);
    assert_same_decoder(f, &first);
    assert_same_decoder(f, &second);
    sac_device_decoder_free(&first, &f->device);
    assert_same_decoder(f, &second);
    sac_device_decoder_free(&second, &f->device);
    sac_device_decoder_free(&second, &f->device);
    assert_int_equal(n_freed, 2);
}

/* The vector lies on the device and holds what the host's holds, or neither has one. */
static void assert_vector_copied(const sac_stream *s, const float *there, const float *here, int64_t n) {
    size_t n_bytes = (size_t)n * sizeof(float);
    float *values = malloc(n_bytes);
    assert_int_equal(here == NULL, there == NULL);
    if (here) {
        assert_in_range((const uint8_t *)there - closed_region, 0, CLOSED_BYTES - n_bytes);
        assert_int_equal(s->device->download(s, values, there, n_bytes), SAC_OK);
        assert_memory_equal(values, here, n_bytes);
    }
    free(values);
}

/* Norms before and behind parts, norms of each head and of all of them. */
static void test_vectors_go_along(void **state) {
    fixture *f = *state;
    static const char *const models[] = {"tests/golden/models/qwen3", "tests/golden/models/gemma3_text",
                                         "tests/golden/models/olmo2", "tests/golden/models/qwen2",
                                         "tests/golden/models/phi3_long", "tests/golden/models/olmoe",
                                         "tests/golden/models/glm4_moe", "tests/golden/models/deepseek_v3"};
    for (size_t i = 0; i < SAC_COUNT(models); i++) {
        sac_loaded_model m;
        sac_device_decoder d;
        sac_error err;
        assert_ok(sac_loaded_model_open(&m, models[i], NULL, NULL, &err), err);
        assert_ok(sac_decoder_to_device(&m, sac_device_activations(&m), &f->stream, &d, NULL, NULL, &err),
                  err);
        const sac_decoder_config *c = &m.decoder.config;
        const int64_t q = (int64_t)c->n_heads * c->head_dim, kv = (int64_t)c->n_kv_heads * c->head_dim;
        for (int k = 0; k < c->n_layers; k++) {
            const sac_decoder_layer *there = &d.decoder.layers[k], *here = &m.decoder.layers[k];
            assert_vector_copied(&f->stream, there->attn_norm, here->attn_norm, c->hidden);
            assert_vector_copied(&f->stream, there->mlp_norm, here->mlp_norm, c->hidden);
            assert_vector_copied(&f->stream, there->attn_post_norm, here->attn_post_norm, c->hidden);
            assert_vector_copied(&f->stream, there->mlp_post_norm, here->mlp_post_norm, c->hidden);
            assert_vector_copied(&f->stream, there->q_bias, here->q_bias, q);
            assert_vector_copied(&f->stream, there->k_bias, here->k_bias, kv);
            assert_vector_copied(&f->stream, there->v_bias, here->v_bias, kv);
            assert_vector_copied(&f->stream, there->q_norm, here->q_norm, c->whole_qk_norm ? q : c->head_dim);
            assert_vector_copied(&f->stream, there->k_norm, here->k_norm,
                                 c->whole_qk_norm ? kv : c->head_dim);
            assert_vector_copied(&f->stream, there->router_bias, here->router_bias, c->experts.n);
            assert_vector_copied(&f->stream, there->latent.q_a_bias, here->latent.q_a_bias, c->latent.q_rank);
            assert_vector_copied(&f->stream, there->latent.kv_a_bias, here->latent.kv_a_bias, sac_latent_width(&c->latent));
            assert_vector_copied(&f->stream, there->latent.q_a_norm, here->latent.q_a_norm, c->latent.q_rank);
            assert_vector_copied(&f->stream, there->latent.kv_a_norm, here->latent.kv_a_norm, c->latent.kv_rank);
            if (c->latent.kv_rank) assert_copied(&f->stream, &there->latent.q_a, &here->latent.q_a);
            if (c->latent.kv_rank) assert_copied(&f->stream, &there->latent.kv_a, &here->latent.kv_a);
        }
        sac_device_decoder_free(&d, &f->device);
        sac_loaded_model_free(&m);
    }
}

/* The layer between two with experts has its MLP. */
static void test_experts_go_along(void **state) {
    fixture *f = *state;
    sac_loaded_model m;
    sac_device_decoder d;
    sac_error err;
    assert_ok(sac_loaded_model_open(&m, "tests/golden/models/qwen3_moe", NULL, NULL, &err), err);
    assert_ok(sac_decoder_to_device(&m, sac_device_activations(&m), &f->stream, &d, NULL, NULL, &err), err);
    for (int i = 0; i < m.decoder.config.n_layers; i++) {
        const sac_decoder_layer *there = &d.decoder.layers[i], *here = &m.decoder.layers[i];
        for (int e = 0; here->experts && e < m.decoder.config.experts.n; e++) {
            assert_copied(&f->stream, &there->experts[e].gate, &here->experts[e].gate);
            assert_copied(&f->stream, &there->experts[e].down, &here->experts[e].down);
        }
        if (i == 1) assert_null(there->experts);
        assert_copied(&f->stream, i == 1 ? &there->up : &there->router, i == 1 ? &here->up : &here->router);
    }
    assert_ptr_equal(d.decoder.layers[2].experts, d.experts + m.decoder.config.experts.n);
    sac_device_decoder_free(&d, &f->device);
    sac_loaded_model_free(&m);
}

/* The gate of the MLP beside experts. */
static void test_gates_of_shared_experts_go_along(void **state) {
    fixture *f = *state;
    sac_loaded_model m;
    sac_device_decoder d;
    sac_error err;
    assert_ok(sac_loaded_model_open(&m, "tests/golden/models/qwen3_5_moe_text", NULL, NULL, &err), err);
    assert_ok(sac_decoder_to_device(&m, sac_device_activations(&m), &f->stream, &d, NULL, NULL, &err), err);
    for (int i = 0; i < m.decoder.config.n_layers; i++)
        assert_copied(&f->stream, &d.decoder.layers[i].shared_router, &m.decoder.layers[i].shared_router);
    sac_device_decoder_free(&d, &f->device);
    sac_loaded_model_free(&m);
}

/* Matrices that are rows of one tensor, by themselves or beside experts. */
static void test_parts_of_tensors_go_along(void **state) {
    fixture *f = *state;
    static const char *const models[] = {"tests/golden/models/phi3_long", "tests/golden/models/granitemoeshared",
                                         "tests/golden/models/glm4_moe"};
    for (size_t k = 0; k < SAC_COUNT(models); k++) {
        sac_loaded_model m;
        sac_device_decoder d;
        sac_error err;
        assert_ok(sac_loaded_model_open(&m, models[k], NULL, NULL, &err), err);
        assert_ok(sac_decoder_to_device(&m, sac_device_activations(&m), &f->stream, &d, NULL, NULL, &err), err);
        for (int i = 0; i < m.decoder.config.n_layers; i++) {
            const sac_decoder_layer *there = &d.decoder.layers[i], *here = &m.decoder.layers[i];
            assert_copied(&f->stream, &there->q, &here->q);
            assert_copied(&f->stream, &there->k, &here->k);
            assert_copied(&f->stream, &there->v, &here->v);
            assert_copied(&f->stream, &there->gate, &here->gate);
            assert_copied(&f->stream, &there->up, &here->up);
            assert_copied(&f->stream, &there->down, &here->down);
            assert_int_equal(there->experts != NULL, k == 1 || (k == 2 && i == 1));
            for (int e = 0; there->experts && e < m.decoder.config.experts.n; e++)
                assert_copied(&f->stream, &there->experts[e].up, &here->experts[e].up);
        }
        sac_device_decoder_free(&d, &f->device);
        sac_loaded_model_free(&m);
    }
}

static void test_adapters_go_along(void **state) {
    fixture *f = *state;
    static const char *const kept[] = {"a=tests/golden/adapters/llama_f32/attention",
                                       "b=tests/golden/adapters/llama_f32/all_linear"};
    const sac_load_options o = {.kept_adapters = kept, .n_kept_adapters = 2};
    sac_loaded_model m;
    sac_device_decoder d;
    sac_error err;
    assert_ok(sac_loaded_model_open_with(&m, "tests/golden/models/llama_f32", &o, &err), err);
    assert_ok(sac_decoder_to_device(&m, SAC_DTYPE_F32, &f->stream, &d, NULL, NULL, &err), err);
    assert_int_equal(d.decoder.n_adapters, 2);
    for (int i = 0; i < m.decoder.config.n_layers; i++) {
        const sac_adapted_layer *there = d.decoder.layers[i].adapted, *here = m.decoder.layers[i].adapted;
        assert_ptr_not_equal(there, here);
        assert_copied(&f->stream, &there[0].q.a, &here[0].q.a);
        assert_copied(&f->stream, &there[0].o.b, &here[0].o.b);
        assert_copied(&f->stream, &there[1].down.b, &here[1].down.b);
        assert_null(there[0].up.a.tensor.data);
    }
    sac_device_decoder_free(&d, &f->device);
    assert_int_equal(n_freed, 1);
    sac_loaded_model_free(&m);
}

static void test_no_room(void **state) {
    fixture *f = *state;
    sac_device_decoder d;
    sac_error err;
    f->device.alloc = no_room;
    assert_int_equal(sac_decoder_to_device(&f->model, f->model.dtype, &f->stream, &d, NULL, NULL, &err),
                     SAC_NO_MEMORY);
    sac_device_decoder_free(&d, &f->device);
    assert_host_is_unchanged(f);
    assert_int_equal(n_freed, 0);
}

static sac_status not_asked(const sac_device *d, size_t n_bytes, void **out, sac_error *err) {
    (void)d, (void)n_bytes, (void)out;
    return sac_fail(err, SAC_INTERNAL, "memory was asked for");
}

/* What the type of activations is without a word, and what the device does not multiply with it: refused by name
 * before memory is asked for. */
static void test_activations(void **state) {
    fixture *f = *state;
    sac_device_decoder d;
    sac_error err;
    const sac_dtype stored = f->model.dtype, other = stored == SAC_DTYPE_F16 ? SAC_DTYPE_BF16 : SAC_DTYPE_F16;
    char want[40];
    f->device.alloc = not_asked;
    assert_int_equal(sac_device_activations(&f->model), stored);
    f->model.dtype = SAC_DTYPE_Q4_K;
    assert_int_equal(sac_device_activations(&f->model), SAC_DTYPE_BF16);
    f->model.dtype = stored;
    sac_loaded_model halves; /* as a file of blocks is that leaves some matrices in f16 */
    assert_ok(sac_loaded_model_open(&halves, "tests/golden/models/gguf_llama_f16/f16.gguf", NULL, NULL, &err),
              err);
    halves.dtype = SAC_DTYPE_Q4_K;
    assert_int_equal(sac_device_activations(&halves), SAC_DTYPE_F16);
    sac_loaded_model_free(&halves);
    assert_int_equal(sac_decoder_to_device(&f->model, other, &f->stream, &d, NULL, NULL, &err),
                     SAC_UNSUPPORTED);
    snprintf(want, sizeof want, "in %s with activations in %s", sac_dtype_name(stored),
             sac_dtype_name(other));
    assert_non_null(strstr(err.text, want));
    sac_device_decoder_free(&d, &f->device);
    f->model.decoder.layers[1].up.format = SAC_WEIGHT_Q4_K;
    assert_int_equal(sac_decoder_to_device(&f->model, stored, &f->stream, &d, NULL, NULL, &err),
                     SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "weights in q4_k"));
    sac_device_decoder_free(&d, &f->device);
    assert_int_equal(n_freed, 0);
}

/* Weights in f32 are rounded to activations of 16 bits; the host's stay. */
static void test_rounded(void **state) {
    fixture *f = *state;
    enum { ROWS = 3, COLS = 8, N = ROWS * COLS };
    static const sac_dtype types[] = {SAC_DTYPE_BF16, SAC_DTYPE_F16};
    float x[N];
    uint16_t got[N];
    sac_error err = {0};
    for (int i = 0; i < N; i++) x[i] = 0.1f * (float)(i - 7);
    for (size_t t = 0; t < SAC_COUNT(types); t++) {
        sac_weight w = sac_weight_of((sac_tensor){x, SAC_DTYPE_F32, 2, {ROWS, COLS}});
        sac_placer p = {
            .arena = sac_arena_measure(), .stream = &f->stream, .activations = types[t], .err = &err};
        assert_int_equal(sac_place_weight(&p, &w), SAC_UNSUPPORTED); /* a tower's */
        assert_ok(sac_place_rounded(&p, &w), err);                   /* but its patch embedding */
        assert_false(p.rounds_f32);
        p.arena = sac_arena_measure();
        p.rounds_f32 = true;
        assert_ok(sac_place_weight(&p, &w), err);
        assert_ptr_equal(w.tensor.data, x);
        const size_t n_bytes = p.arena.used_bytes;
        assert_in_range(n_bytes, sizeof got, sizeof got + 255);
        p.arena = sac_arena_over(closed_region, n_bytes);
        assert_ok(sac_place_weight(&p, &w), err);
        assert_int_equal(w.tensor.dtype, types[t]);
        assert_int_equal(f->device.download(&f->stream, got, w.tensor.data, sizeof got), SAC_OK);
        for (int i = 0; i < N; i++)
            assert_int_equal(got[i], t ? sac_f32_to_f16(x[i]) : sac_f32_to_bf16(x[i]));
    }
}

/* A tower whose patch embedding alone is in f32, as in a GGUF file of a vision half, goes to the device, where that
 * matrix has the numbers of the 16 bits that it was made from. */
static void test_patch_embedding(void **state) {
    fixture *f = *state;
    static const char *const folders[] = {"tests/golden/models/llava", "tests/golden/models/qwen2_vl"};
    for (size_t i = 0; i < SAC_COUNT(folders); i++) {
        sac_loaded_model m;
        sac_device_tower there;
        sac_error err;
        assert_ok(sac_loaded_model_open(&m, folders[i], NULL, NULL, &err), err);
        sac_weight *w = i ? &((sac_qwen2vl_weights *)m.tower.weights)->patch_embed
                          : &((sac_clip_weights *)m.tower.weights)->patch_embed;
        const sac_tensor stored = w->tensor;
        const size_t n = (size_t)(stored.dim[0] * stored.dim[1]);
        float *wide = malloc(n * sizeof *wide);
        uint16_t *got = malloc(2 * n * sizeof *got);
        assert_int_equal(stored.dtype, SAC_DTYPE_BF16);
        for (size_t k = 0; k < n; k++) wide[k] = sac_bf16_to_f32(((const uint16_t *)stored.data)[k]);
        w->tensor.data = wide;
        w->tensor.dtype = SAC_DTYPE_F32;
        assert_ok(sac_tower_to_device(&m, SAC_DTYPE_BF16, &f->stream, &there, &err), err);
        assert_int_equal(there.activations, SAC_DTYPE_BF16);
        assert_true(there.n_bytes > 0);
        const sac_tensor *t = i ? &((sac_qwen2vl_weights *)there.tower.weights)->patch_embed.tensor
                                : &((sac_clip_weights *)there.tower.weights)->patch_embed.tensor;
        assert_int_equal(t->dtype, SAC_DTYPE_BF16);
        assert_in_range(t->dim[1], stored.dim[1], stored.dim[1] + 15); /* zeros may stand behind a row */
        const size_t row = (size_t)stored.dim[1], aligned = (size_t)t->dim[1];
        assert_int_equal(f->device.download(&f->stream, got, t->data, (size_t)t->dim[0] * aligned * 2),
                         SAC_OK);
        for (size_t k = 0; k < (size_t)t->dim[0]; k++)
            assert_memory_equal(got + k * aligned, (const uint16_t *)stored.data + k * row, row * 2);
        sac_device_tower_free(&there, &f->device);
        sac_loaded_model_free(&m);
        free(wide);
        free(got);
    }
}

/* Where a part of a tile's stretch begins that has element i of a row. */
static const uint8_t *part_at(const uint8_t *w, const sac_block_layout *l, sac_layout_part p, int64_t row,
                              int64_t i) {
    return w + l->at[p] + (row / 16 * l->n_stretches + i / 256) * l->bytes[p];
}
/* Where block_layout.h says that a GPU has the code of element i of a row. */
static int code_of(const uint8_t *w, const sac_block_layout *l, int64_t row, int64_t i) {
    const int64_t chunk = i / 64 % 4, step = i % 64 / 16, byte = i % 2 * 2 + i % 4 / 2, half = row % 16 / 8,
                  lane = row % 8 * 4 + i % 16 / 4, line = half * 32 + lane;
    const uint8_t *codes = part_at(w, l, SAC_BLOCK_CODES, row, i),
                  *high = part_at(w, l, SAC_BLOCK_HIGH, row, i);
    const int code_bits = l->bytes[SAC_BLOCK_CODES] / 16 * 8 / 256,
              high_bits = l->bytes[SAC_BLOCK_HIGH] / 16 * 8 / 256;
    if (code_bits == 8) return (int8_t)codes[((half * 4 + chunk) * 32 + lane) * 16 + 4 * step + byte];
    const int low =
        code_bits == 2
            ? codes[line * 16 + chunk * 4 + byte] >> (2 * step) & 3
            : codes[((half * 2 + chunk / 2) * 32 + lane) * 16 + chunk % 2 * 8 + step / 2 * 4 + byte] >>
                      (step % 2 * 4) &
                  15;
    const int top = high_bits == 2   ? high[line * 16 + chunk * 4 + byte] >> (2 * step) & 3
                    : high_bits == 1 ? high[line * 8 + chunk / 2 * 4 + byte] >> (chunk % 2 * 4 + step) & 1
                                     : 0;
    return low | top << code_bits;
}

static float half_at(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, 2);
    return sac_f16_to_f32(h);
}

/* Element `at` of a row by what a GPU has of its stretch. */
static float element_of(const uint8_t *w, const sac_block_layout *l, sac_dtype t, int64_t row, int64_t at) {
    const uint8_t *scales =
        part_at(w, l, SAC_BLOCK_SCALES, row, at) + row % 16 * (l->bytes[SAC_BLOCK_SCALES] / 16);
    const uint8_t *more = part_at(w, l, SAC_BLOCK_MORE, row, at) + row % 16 * (l->bytes[SAC_BLOCK_MORE] / 16);
    const int code = code_of(w, l, row, at);
    const float q = (float)code;
    const int64_t i = at % 256;
    uint8_t scale[16], min[8];
    switch ((int)t) {
    case SAC_DTYPE_Q8_0: return half_at(scales + i / 32 * 2) * q;
    case SAC_DTYPE_Q4_0: return half_at(scales + i / 32 * 2) * (q - 8);
    case SAC_DTYPE_Q5_0: return half_at(scales + i / 32 * 2) * (q - 16);
    case SAC_DTYPE_Q4_1:
    case SAC_DTYPE_Q5_1: return half_at(scales + i / 32 * 4) * q + half_at(scales + i / 32 * 4 + 2);
    case SAC_DTYPE_IQ4_NL: return half_at(scales + i / 32 * 2) * (float)sac_iq4_values[code];
    case SAC_DTYPE_MXFP4: return sac_mxfp4_scale(scales[i / 32]) * (float)sac_mxfp4_values[code];
    case SAC_DTYPE_Q2_K:
        return half_at(more) * (float)(scales[i / 16] & 15) * q -
               half_at(more + 2) * (float)(scales[i / 16] >> 4);
    case SAC_DTYPE_Q3_K:
        sac_q3_k_scales(scales, scale);
        return half_at(more) * (float)(scale[i / 16] - 32) * (q - 4);
    case SAC_DTYPE_Q4_K:
    case SAC_DTYPE_Q5_K:
        sac_q4_k_scales(scales + 4, scale, min);
        return half_at(scales) * (float)scale[i / 32] * q - half_at(scales + 2) * (float)min[i / 32];
    case SAC_DTYPE_Q6_K: return half_at(more) * (float)(int8_t)scales[i / 16] * (q - 32);
    case SAC_DTYPE_IQ4_XS: {
        const int low = scales[4 + i / 64] >> (i / 32 % 2 * 4) & 15,
                  high = (scales[2] | scales[3] << 8) >> (i / 32 * 2) & 3;
        return half_at(scales) * (float)((low | high << 4) - 32) * (float)sac_iq4_values[code];
    }
    default: fail_msg("%s is not known here", sac_dtype_name(t)); return 0;
    }
}
/* Bytes without a f16 among them that is not a number. */
static void fill_blocks(uint8_t *bytes, size_t n) {
    uint32_t rng = 1;
    for (size_t i = 0; i < n; i++) rng = rng * 1664525u + 1013904223u, bytes[i] = (uint8_t)(rng >> 24) & 0xbf;
}

/* GGUF's blocks lie on a GPU in an order of their own, every element where it is looked for; the host's stay. */
static void test_blocks(void **state) {
    fixture *f = *state;
    enum { ROWS = 21, LAID_ROWS = 32 };
    static uint8_t from[ROWS * 1024 * 2], before[sizeof from], got[LAID_ROWS * 1024 * 2];
    static float want[1024];
    sac_error err = {0};
    for (int i = 0; i < 2 * N_BLOCK_DTYPES; i++) {
        const sac_dtype t = (sac_dtype)(SAC_DTYPE_Q8_0 + i / 2);
        const int64_t k = sac_dtype_block(t) == 256 ? 512 + 256 * (i % 2) : 544 - 480 * (i % 2);
        const size_t row_bytes = sac_dtype_row_bytes(t, k);
        fill_blocks(from, sizeof from);
        memcpy(before, from, sizeof from);
        sac_weight w = sac_weight_of((sac_tensor){from, t, 2, {ROWS, k}});
        sac_placer p = {
            .arena = sac_arena_measure(), .stream = &f->stream, .activations = SAC_DTYPE_F32, .err = &err};
        assert_int_equal(sac_place_weight(&p, &w), SAC_UNSUPPORTED);
        assert_non_null(strstr(err.text, sac_dtype_name(t)));
        p.activations = SAC_DTYPE_BF16;
        assert_ok(sac_place_weight(&p, &w), err);
        const size_t n_bytes = sac_block_layout_bytes(t, ROWS, k);
        assert_int_equal(n_bytes, LAID_ROWS * sac_dtype_row_bytes(t, (k + 255) / 256 * 256));
        assert_in_range(p.arena.used_bytes, n_bytes, n_bytes + 255);
        p.arena = sac_arena_over(closed_region, p.arena.used_bytes);
        assert_ok(sac_place_weight(&p, &w), err);
        assert_ptr_equal(w.tensor.data, closed_region);
        assert_int_equal(f->device.download(&f->stream, got, w.tensor.data, n_bytes), SAC_OK);
        assert_memory_equal(from, before, sizeof from);
        const sac_block_layout l = sac_block_layout_of(t, ROWS, k);
        for (int64_t row = 0; row < ROWS; row++) {
            sac_dequantize_row(t, from + (size_t)row * row_bytes, want, k);
            for (int64_t e = 0; e < k; e++) {
                const float value = element_of(got, &l, t, row, e);
                assert_memory_equal(&value, &want[e], sizeof value);
            }
        }
    }
}

/* Quantised folders go up as the device's types, floats beside them in 16 bits; groups of 40 fit into none. */
static void test_folders(void **state) {
    fixture *f = *state;
    static const struct {
        const char *folder;
        sac_dtype type;
        const char *refused;
    } all[] = {
        {"packed_awq", SAC_DTYPE_C4_32, NULL},
        {"packed_gptq_4", SAC_DTYPE_C4_32, NULL},
        {"packed_gptq_4_v2", SAC_DTYPE_C4_32, NULL},
        {"packed_gptq_4_order", SAC_DTYPE_C4_32, NULL},
        {"packed_gptq_8", SAC_DTYPE_C8_32, NULL},
        {"packed_ct_w4", SAC_DTYPE_C4_32, NULL},
        {"packed_ct_w4_zeros", SAC_DTYPE_C4_32, NULL},
        {"packed_ct_w8", SAC_DTYPE_C8_128, NULL},
        {"packed_ct_w8a8", SAC_DTYPE_C8_128, NULL},
        {"packed_ct_w8a8_static", SAC_DTYPE_C8_128, NULL},
        {"packed_fp8_static", SAC_DTYPE_E4M3_128, NULL},
        {"packed_modelopt_fp8", SAC_DTYPE_E4M3_128, NULL},
        {"packed_ct_fp8", SAC_DTYPE_E4M3_128, NULL},
        {"packed_ct_fp8_tensor", SAC_DTYPE_E4M3_128, NULL},
        {"packed_nf4", SAC_DTYPE_NF4_32, NULL},
        {"packed_nf4_nested", SAC_DTYPE_NF4_32, NULL},
        {"packed_llm_int8", SAC_DTYPE_C8_128, NULL},
        {"packed_fp8_block", SAC_N_DTYPES, "fp8 in groups of 40"},
        {"packed_ct_nvfp4", SAC_DTYPE_E2M1_16, NULL},
        {"packed_ct_mxfp4", SAC_DTYPE_E2M1_32, NULL},
        {"packed_modelopt_nvfp4", SAC_DTYPE_E2M1_16, NULL},
        {"packed_hqq", SAC_DTYPE_Q4_1, NULL},
    };
    for (size_t i = 0; i < SAC_COUNT(all); i++) {
        sac_loaded_model m;
        sac_device_decoder d;
        sac_error err = {0};
        char path[128];
        snprintf(path, sizeof path, "tests/golden/models/%s", all[i].folder);
        assert_ok(sac_loaded_model_open(&m, path, NULL, NULL, &err), err);
        const sac_dtype activations = sac_device_activations(&m);
        assert_int_equal(activations, SAC_DTYPE_F16);
        const sac_status st = sac_decoder_to_device(&m, activations, &f->stream, &d, NULL, NULL, &err);
        if (all[i].type == SAC_N_DTYPES) {
            assert_int_equal(st, SAC_UNSUPPORTED);
            assert_non_null(strstr(err.text, all[i].refused));
        } else {
            assert_ok(st, err);
            const sac_weight *q = &d.decoder.layers[0].q, *here = &m.decoder.layers[0].q;
            assert_int_equal(q->tensor.dtype, all[i].type);
            assert_int_equal(q->x_rounding, here->x_rounding);
            assert_true(q->x_scale == here->x_scale);
            assert_int_equal(q->order.data != NULL, here->order.data != NULL);
            assert_null(q->scales.data);
            assert_int_equal(d.decoder.embed.tensor.dtype, SAC_DTYPE_F16);
        }
        sac_device_decoder_free(&d, &f->device);
        sac_loaded_model_free(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_two_copies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_vectors_go_along, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_adapters_go_along, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_experts_go_along, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gates_of_shared_experts_go_along, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_parts_of_tensors_go_along, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_activations, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_patch_embedding, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_blocks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_folders, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
