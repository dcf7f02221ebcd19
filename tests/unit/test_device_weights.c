/* A copy of a model's decoder on a device: the model on the host stays as it is, and may be copied again. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "device_weights_test.h"

#include "clip.h"
#include "qwen2vl.h"

static sac_status no_room(const sac_device *d, size_t n_bytes, void **out, sac_error *err) {
    (void)d;
    *out = NULL;
    return sac_fail(err, SAC_NO_MEMORY, "no room for %zu bytes", n_bytes);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
