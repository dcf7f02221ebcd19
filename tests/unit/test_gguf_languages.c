/* GGUF language models of every architecture: damaged ones, what `saccade quantize` writes of folders, experts on a device. The
 * folder of pairs (tools/make_gguf_pair.py --set) is the argument, or $SACCADE_GGUF_PAIRS. */
#define _DEFAULT_SOURCE
#include "device_weights.h"
#include "gguf_pairs.h"
#include "model_load.h"
#include "quantize.h"

static int n_damaged;

/* Twins of f16 numbers to GGUF of f16, which loses nothing, and beside the vision half of the pair. */
static void written_again(void **state) {
    static const char *const written[] = {"llava_f16",   "gemma3_pan", "gemma3_text", "gemma2_bare", "gemma2_f16",
                                          "granite_f16", "olmo2_f16",  "smollm3_f16", "qwen3_vl_tied"};
    json_t *index = *state;
    char twin[PATH_BYTES], path[PATH_BYTES], mmproj[PATH_BYTES];
    const sac_quantize_options options = {.format = "f16", .n_threads = 1};
    size_t n = 0, i;
    json_t *pair;
    json_array_foreach(index, i, pair) {
        const char *name = text_of(pair, "name");
        sac_error err;
        bool is_chosen = false;
        for (size_t k = 0; k < SAC_COUNT(written); k++) is_chosen |= strcmp(name, written[k]) == 0;
        if (!is_chosen) continue;
        snprintf(path, sizeof path, "%s/%s.gguf", folder, name);
        assert_ok(sac_quantize(path_of(twin, name, "twin"), path, &options, &err), err);
        const bool has_half = sac_file_exists(path_of(mmproj, name, "mmproj.gguf"));
        compare(pair, path, has_half ? mmproj : NULL);
        n++;
    }
    assert_int_equal(n, SAC_COUNT(written));
}

/* Blocks of experts are for the CPU; a card says so before anything is placed. */
static void experts_in_blocks_stay_off_devices(void **state) {
    (void)state;
    char path[PATH_BYTES];
    sac_loaded_model m;
    sac_device_decoder d = {0};
    sac_error err = {0};
    assert_ok(sac_loaded_model_open(&m, path_of(path, "qwen3_moe_q8_0", "model.gguf"), NULL, NULL, &err), err);
    assert_int_equal(sac_decoder_to_device(&m, SAC_DTYPE_BF16, NULL, &d, NULL, NULL, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "experts in q8_0 are multiplied on the CPU only (layer 0)"));
    sac_loaded_model_free(&m);
}

/* ---- damaged language models ---- */

static void damaged_language(bytes *b, const char *pair, const char *const *words) {
    put("model.gguf", b->data, b->n);
    refused("none", words);
    free(b->data);
    b->data = get(pair, "model.gguf", &b->n);
    n_damaged++;
}
#define DAMAGED_LANGUAGE(...) damaged_language(&b, pair, (const char *const[]){"model.gguf", __VA_ARGS__, NULL})

static const char *key_of(char key[100], const char *arch, const char *name) {
    snprintf(key, 100, "%s.%s", arch, name);
    return key;
}

/* What every architecture needs, and of which every size is looked at. */
static void damage_common(const char *pair, const char *arch, const char *first_norm) {
    static const char *const needed[] = {"block_count", "embedding_length", "feed_forward_length", "attention.head_count"};
    static const uint32_t sizes[] = {0, 1u << 31, 0xffffffffu, 1u << 30};
    const char *const tensors[] = {"token_embd.weight", "blk.0.attn_q.weight", "blk.1.attn_k.weight", "output_norm.weight",
                                   first_norm};
    char key[100];
    bytes b;
    b.data = get(pair, "model.gguf", &b.n);
    n_damaged = 0;
    for (size_t i = 0; i < SAC_COUNT(needed); i++) {
        rename_it(&b, key_of(key, arch, needed[i]));
        DAMAGED_LANGUAGE(key, "is missing");
        for (size_t k = 0; k < SAC_COUNT(sizes); k++) {
            set_u32(&b, key, sizes[k]);
            DAMAGED_LANGUAGE("");
        }
    }
    for (size_t i = 0; i < SAC_COUNT(tensors); i++) {
        rename_it(&b, tensors[i]);
        DAMAGED_LANGUAGE(tensors[i], "is missing");
        set_dim(&b, tensors[i], 0, UINT64_MAX);
        DAMAGED_LANGUAGE(tensors[i]);
        set_dim(&b, tensors[i], 0, 0);
        DAMAGED_LANGUAGE(tensors[i]);
    }
    for (size_t k = 1; k <= 8; k++) {
        b.n = b.n * k / 9;
        DAMAGED_LANGUAGE("");
    }
    set_u32(&b, key_of(key, arch, "block_count"), 99);
    DAMAGED_LANGUAGE("is missing");
    set_u32(&b, key_of(key, arch, "attention.key_length"), 6);
    DAMAGED_LANGUAGE("");
    set_u32(&b, key_of(key, arch, "rope.dimension_count"), 3);
    DAMAGED_LANGUAGE("an even number is needed");
    set_f32(&b, key_of(key, arch, "rope.freq_base"), NAN);
    DAMAGED_LANGUAGE("rope.freq_base");
    set_f32(&b, key_of(key, arch, "attention.layer_norm_rms_epsilon"), -1);
    DAMAGED_LANGUAGE("norm epsilon");
    free(b.data);
    print_message("           %s: %d damaged language models, one line each\n", arch, n_damaged);
    assert_true(n_damaged >= 30);
}

/* A number that has to be above 0. */
static void damage_number(const char *pair, const char *arch, const char *name) {
    const float bad[] = {NAN, INFINITY, -1};
    char key[100];
    bytes b;
    b.data = get(pair, "model.gguf", &b.n);
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        set_f32(&b, key_of(key, arch, name), bad[i]);
        DAMAGED_LANGUAGE(name);
    }
    memcpy(behind(&b, key), (uint32_t[]){4}, 4); /* an integer of u32 that many ones make */
    memcpy(behind(&b, key) + 4, (uint32_t[]){0}, 4);
    if (strstr(name, "softcapping")) { /* 0: no cap, which is a model too */
        free(b.data);
        return;
    }
    DAMAGED_LANGUAGE(name);
    free(b.data);
}

static void damage_experts(void) {
    static const char pair[] = "qwen3_moe", gate[] = "blk.1.ffn_gate_exps.weight", down[] = "blk.2.ffn_down_exps.weight";
    static const char *const needed[] = {"qwen3moe.expert_count", "qwen3moe.expert_used_count"};
    bytes b;
    b.data = get(pair, "model.gguf", &b.n);
    for (size_t i = 0; i < SAC_COUNT(needed); i++) {
        rename_it(&b, needed[i]);
        DAMAGED_LANGUAGE("is missing");
        set_u32(&b, needed[i], 0);
        DAMAGED_LANGUAGE("");
        set_u32(&b, needed[i], 0xffffffffu);
        DAMAGED_LANGUAGE("");
    }
    set_u32(&b, needed[0], 5);
    DAMAGED_LANGUAGE("has shape");
    set_u32(&b, "qwen3moe.expert_gating_func", 2);
    DAMAGED_LANGUAGE("\"expert_gating_func\" is supported as 1 only");
    set_u32(&b, needed[1], 7);
    DAMAGED_LANGUAGE("7 experts of a token, but there are 6");
    set_u32(&b, "qwen3moe.expert_feed_forward_length", 16);
    DAMAGED_LANGUAGE("has shape");
    for (int i = 0; i < 3; i++) {
        set_dim(&b, gate, i, 0);
        DAMAGED_LANGUAGE(gate);
        set_dim(&b, gate, i, UINT64_MAX);
        DAMAGED_LANGUAGE(gate);
    }
    set_dim(&b, down, 0, 24), set_dim(&b, down, 1, 17); /* rows and columns exchanged */
    DAMAGED_LANGUAGE(down, "has shape [6, 17, 24], the configuration asks for [6, 24, 17]");
    rename_it(&b, gate);
    DAMAGED_LANGUAGE("blk.1.ffn_gate_exps.0.weight is missing");
    rename_it(&b, "blk.1.ffn_gate_inp.weight");
    DAMAGED_LANGUAGE("blk.1.ffn_gate_inp.weight is missing");
    free(b.data);
}

/* Experts whose scores are their own, and the MLP beside them. */
static void damage_routed(void) {
    static const char pair[] = "glm4_moe", shared[] = "blk.1.ffn_up_shexp.weight", bias[] = "blk.1.exp_probs_b.bias";
    static const struct {
        const char *key;
        unsigned value;
        const char *expect;
    } keys[] = {{"glm4moe.expert_gating_func", 1, "\"expert_gating_func\" is 1"},
                {"glm4moe.nextn_predict_layers", 3, "\"nextn_predict_layers\" is 3 of 3 layers"},
                {"glm4moe.nextn_predict_layers", 0, "is missing"},
                {"glm4moe.leading_dense_block_count", 0, "blk.0"},
                {"glm4moe.expert_group_count", 4, "6 experts do not stand in so many equal groups"},
                {"glm4moe.expert_group_used_count", 1, "\"expert_group_used_count\" 1 of 3 groups have 2"},
                {"glm4moe.expert_group_used_count", 4, "but there are 3 groups"},
                {"glm4moe.expert_shared_count", 1, "has shape"},
                {"glm4moe.expert_used_count", 0, "\"expert_used_count\" is 0"},
                {"glm4moe.expert_count", 9, "has shape"}};
    bytes b;
    b.data = get(pair, "model.gguf", &b.n);
    for (size_t i = 0; i < SAC_COUNT(keys); i++) {
        set_u32(&b, keys[i].key, keys[i].value);
        DAMAGED_LANGUAGE(keys[i].expect);
    }
    set_f32(&b, "glm4moe.expert_weights_scale", NAN);
    DAMAGED_LANGUAGE("expert_weights_scale");
    set_dim(&b, shared, 1, 13);
    DAMAGED_LANGUAGE(shared, "has shape [13, 16], the configuration asks for [14, 16]");
    set_dim(&b, bias, 0, 5);
    DAMAGED_LANGUAGE(bias, "has shape");
    rename_it(&b, shared);
    DAMAGED_LANGUAGE(shared, "is missing");
    rename_it(&b, "glm4moe.expert_shared_count");
    DAMAGED_LANGUAGE("\"expert_shared_count\" is missing");
    rename_it(&b, bias);
    DAMAGED_LANGUAGE(bias, "is missing");
    free(b.data);
}

/* llama.cpp's converter writes 0 where experts stand in no groups. */
static void no_groups_may_be_said_as_0(void **state) {
    (void)state;
    char path[PATH_BYTES];
    sac_loaded_model m;
    sac_error err;
    bytes b;
    b.data = get("glm4_moe", "model.gguf", &b.n);
    set_u32(&b, "glm4moe.expert_group_count", 0);
    set_u32(&b, "glm4moe.expert_group_used_count", 0);
    put("model.gguf", b.data, b.n);
    free(b.data);
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    assert_ok(sac_loaded_model_open(&m, path, NULL, NULL, &err), err);
    assert_int_equal(m.decoder.config.experts.n_groups, 0);
    assert_int_equal(m.decoder.config.experts.n, 6);
    sac_loaded_model_free(&m);
}

/* Layers of linear attention, and the gate of the MLP beside experts. */
static void damage_hybrid(const char *pair, const char *arch) {
    static const char *const needed[] = {"ssm.conv_kernel", "ssm.state_size", "ssm.group_count", "ssm.time_step_rank", "ssm.inner_size",
                                         "expert_count", "expert_used_count", "expert_feed_forward_length",
                                         "expert_shared_feed_forward_length"};
    static const char *const tensors[] = {"blk.0.attn_qkv.weight",   "blk.0.attn_gate.weight", "blk.0.ssm_alpha.weight",
                                          "blk.0.ssm_beta.weight",   "blk.0.ssm_out.weight",   "blk.0.ssm_conv1d.weight",
                                          "blk.0.ssm_a",             "blk.0.ssm_dt.bias",      "blk.0.ssm_norm.weight",
                                          "blk.0.attn_norm.weight",  "blk.1.attn_q.weight",    "blk.1.post_attention_norm.weight",
                                          "blk.1.ffn_gate_inp_shexp.weight", "blk.0.ffn_up_shexp.weight"};
    static const struct {
        const char *key;
        unsigned value;
        const char *expect;
    } keys[] = {{"ssm.time_step_rank", 3, "\"ssm.inner_size\""},
                {"ssm.group_count", 3, "cannot share 3 key heads evenly"},
                {"ssm.state_size", 257, "ssm.state_size"},
                {"ssm.state_size", 5, "has shape"},
                {"ssm.conv_kernel", 5, "has shape"},
                {"ssm.inner_size", 12, "has shape"},
                {"expert_used_count", 6, "6 experts of a token, but there are 5"},
                {"expert_shared_feed_forward_length", 9, "has shape"},
                {"block_count", 3, "lists 2 layers of 3"}};
    char key[100];
    bytes b;
    b.data = get(pair, "model.gguf", &b.n);
    n_damaged = 0;
    for (size_t i = 0; i < SAC_COUNT(needed); i++) {
        rename_it(&b, key_of(key, arch, needed[i]));
        DAMAGED_LANGUAGE(needed[i], "is missing");
        set_u32(&b, key_of(key, arch, needed[i]), 0);
        DAMAGED_LANGUAGE(needed[i]);
        set_u32(&b, key_of(key, arch, needed[i]), 0xffffffffu);
        DAMAGED_LANGUAGE(needed[i]);
    }
    for (size_t i = 0; i < SAC_COUNT(keys); i++) {
        set_u32(&b, key_of(key, arch, keys[i].key), keys[i].value);
        DAMAGED_LANGUAGE(keys[i].expect);
    }
    for (size_t i = 0; i < SAC_COUNT(tensors); i++) {
        rename_it(&b, tensors[i]);
        DAMAGED_LANGUAGE(tensors[i], "is missing");
        set_dim(&b, tensors[i], 0, 3);
        DAMAGED_LANGUAGE(tensors[i], "has shape");
        set_dim(&b, tensors[i], 0, UINT64_MAX);
        DAMAGED_LANGUAGE(tensors[i]);
    }
    free(b.data);
    print_message("           %s: %d damaged language models, one line each\n", arch, n_damaged);
    assert_true(n_damaged >= 30);
}

/* A key that is missing, or of another value, and a tensor of another name or shape: of a file of its own keys and tensors. */
typedef struct damage {
    const char *key;
    unsigned value;
    const char *expect;
} damage;

static void damage_own(const char *pair, const char *arch, const char *const *needed, const damage *keys, size_t n_keys,
                       const char *const *tensors) {
    char key[100];
    bytes b;
    b.data = get(pair, "model.gguf", &b.n);
    n_damaged = 0;
    for (; *needed; needed++) {
        rename_it(&b, key_of(key, arch, *needed));
        DAMAGED_LANGUAGE(*needed, "is missing");
        set_u32(&b, key, 0);
        DAMAGED_LANGUAGE("");
        set_u32(&b, key, 0xffffffffu);
        DAMAGED_LANGUAGE("");
    }
    for (size_t i = 0; i < n_keys; i++) {
        set_u32(&b, key_of(key, arch, keys[i].key), keys[i].value);
        DAMAGED_LANGUAGE(keys[i].expect);
    }
    for (; *tensors; tensors++) {
        rename_it(&b, *tensors);
        DAMAGED_LANGUAGE("is missing");
        set_dim(&b, *tensors, 0, 3);
        DAMAGED_LANGUAGE("has shape");
        set_dim(&b, *tensors, 0, UINT64_MAX);
        DAMAGED_LANGUAGE(*tensors);
    }
    for (size_t k = 1; k <= 8; k++) {
        b.n = b.n * k / 9;
        DAMAGED_LANGUAGE("");
    }
    free(b.data);
    print_message("           %s: %d damaged language models, one line each\n", arch, n_damaged);
    assert_true(n_damaged >= 30);
}

/* Keys and values that are made of latents. */
static void damage_latents(void) {
    static const char *const needed[] = {"attention.kv_lora_rank", "attention.value_length_mla", "rope.dimension_count", "expert_count",
                                         "expert_feed_forward_length", "block_count", NULL};
    static const char *const tensors[] = {"blk.0.attn_q_a.weight", "blk.1.attn_q_b.weight", "blk.0.attn_q_a_norm.weight",
                                          "blk.1.attn_kv_a_mqa.weight", "blk.0.attn_kv_a_norm.weight", "blk.1.attn_k_b.weight",
                                          "blk.0.attn_v_b.weight", "blk.1.attn_output.weight", "blk.1.exp_probs_b.bias", NULL};
    static const damage keys[] = {{"attention.key_length_mla", 4, "of which \"rope.dimension_count\" 4 are turned"},
                                  {"attention.key_length_mla", 12, "has shape"},
                                  {"attention.value_length_mla", 11, "values of 11 channels a head beside keys of 10"},
                                  {"attention.kv_lora_rank", 8, "\"attention.key_length\" is 13, the latent's sizes make it 12"},
                                  {"attention.value_length", 8, "\"attention.value_length\" is 8, the latent's sizes make it 9"},
                                  {"attention.head_count_kv", 3, "\"attention.head_count_kv\" is 3, the latent's sizes make it 1"},
                                  {"attention.q_lora_rank", 10, "has shape"},
                                  {"attention.head_count", 2, "has shape"},
                                  {"expert_gating_func", 3, "\"expert_gating_func\" is 3; 1 (softmax) and 2 (sigmoid) are"},
                                  {"expert_gating_func", 1, "tensors exp_probs_b are not supported beside it"},
                                  {"expert_group_used_count", 4, "but there are 3 groups"},
                                  {"leading_dense_block_count", 0, "blk.0"}};
    static const char *const old_tensors[] = {"blk.0.attn_kv_b.weight", NULL};
    static const char *const old_needed[] = {"attention.key_length", "attention.value_length", "attention.kv_lora_rank",
                                             "expert_used_count", "embedding_length", "attention.head_count", "feed_forward_length", NULL};
    static const damage old_keys[] = {{"attention.value_length", 6, "has shape"}};
    damage_own("deepseek_v3", "deepseek2", needed, keys, SAC_COUNT(keys), tensors);
    damage_own("deepseek_v3_old", "deepseek2", old_needed, old_keys, SAC_COUNT(old_keys), old_tensors);
    const char *pair = "deepseek_v3";
    bytes b;
    b.data = get(pair, "model.gguf", &b.n);
    set_f32(&b, "deepseek2.rope.scaling.yarn_log_multiplier", NAN);
    DAMAGED_LANGUAGE("yarn_log_multiplier");
    set_f32(&b, "deepseek2.rope.scaling.factor", NAN);
    DAMAGED_LANGUAGE("rope.scaling.factor");
    set_f32(&b, "deepseek2.expert_weights_scale", -1);
    DAMAGED_LANGUAGE("expert_weights_scale");
    free(b.data);
}

/* Keys and values are joined for the binder, which reads copies of them: once these are made nothing is held twice. */
static void joined_latents_are_let_go(void **state) {
    (void)state;
    char path[PATH_BYTES];
    sac_loaded_model m;
    sac_error err;
    assert_ok(sac_loaded_model_open(&m, path_of(path, "deepseek_v3", "model.gguf"), NULL, NULL, &err), err);
    const sac_checkpoint *c = &((const sac_model_files *)m.checkpoint)->weights;
    size_t n_file_bytes = 0;
    assert_null(sac_checkpoint_find(c, "blk.1.attn_kv_b.weight"));
    assert_non_null(sac_checkpoint_find(c, "blk.1.attn_k_b.weight"));
    assert_non_null(sac_checkpoint_find(c, "blk.0.attn_v_b.weight"));
    for (int i = 0; i < c->n_tensors; i++) n_file_bytes += c->tensors[i].file >= 0 ? c->tensors[i].n_bytes : 0;
    assert_int_equal(c->n_owned, 0);
    assert_int_equal(m.weight_bytes, n_file_bytes);
    sac_loaded_model_free(&m);
}

/* A file that does not say how scores are made, as those of GLM-4.7-Flash: a bias of them tells that they are sigmoids. */
static void gate_of_bias(void) {
    const char *pair = "deepseek_v3";
    char path[PATH_BYTES];
    bytes b;
    for (size_t i = 0; i < 3; i++) {
        sac_loaded_model m;
        sac_error err;
        b.data = get(pair, "model.gguf", &b.n);
        if (i == 1) rename_it(&b, "deepseek2.expert_gating_func");
        if (i == 2) set_u32(&b, "deepseek2.expert_gating_func", 0);
        snprintf(path, sizeof path, "%s/gate-%zu.gguf", folder, i);
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(b.data, 1, b.n, f), b.n);
        assert_int_equal(fclose(f), 0);
        assert_ok(sac_loaded_model_open(&m, path, NULL, NULL, &err), err);
        assert_true(m.decoder.config.experts.sigmoid);
        sac_loaded_model_free(&m);
        free(b.data);
    }
}

/* Linear attention whose strengths and decays are of key heads. */
static void damage_grouped(void) {
    static const char *const needed[] = {"ssm.conv_kernel", "ssm.state_size", "ssm.group_count", "ssm.time_step_rank", "ssm.inner_size",
                                         "expert_shared_feed_forward_length", NULL};
    static const char *const tensors[] = {"blk.0.ssm_ba.weight", "blk.0.attn_qkv.weight", "blk.0.attn_gate.weight", "blk.0.ssm_out.weight",
                                          "blk.0.ssm_conv1d.weight", "blk.1.attn_q.weight", NULL};
    static const damage keys[] = {{"ssm.group_count", 3, "cannot share 3 key heads evenly"}, {"expert_used_count", 4, "but there are 3"}};
    static const char *const old_tensors[] = {"blk.0.ssm_in.weight", NULL};
    damage_own("qwen3_next", "qwen3next", needed, keys, SAC_COUNT(keys), tensors);
    damage_own("qwen3_next_old", "qwen3next", needed, keys, SAC_COUNT(keys), old_tensors);
}

/* What decays has to. */
static void damage_decay(const char *pair) {
    static const float bad[] = {0, 1, NAN, -INFINITY};
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        bytes b;
        b.data = get(pair, "model.gguf", &b.n);
        sac_loaded_model m;
        sac_error err;
        char path[PATH_BYTES];
        assert_ok(sac_loaded_model_open(&m, path_of(path, pair, "model.gguf"), NULL, NULL, &err), err);
        const float was = -expf(m.decoder.layers[0].linear.a_log[0]), next = -expf(m.decoder.layers[0].linear.a_log[1]);
        sac_loaded_model_free(&m);
        size_t n = 0;
        for (size_t at = 0; at + 8 <= b.n; at += 4) { /* the two first of them */
            float v[2];
            memcpy(v, b.data + at, sizeof v);
            if (!(fabsf(v[0] - was) <= 1e-6f && fabsf(v[1] - next) <= 1e-6f)) continue;
            memcpy(b.data + at + 4, &bad[i], 4);
            n++;
        }
        assert_int_equal(n, 1);
        DAMAGED_LANGUAGE("blk.0.ssm_a: value 1 must be negative");
        free(b.data);
    }
}

/* Several matrices in one tensor, and the factors of LongRoPE. */
static void damage_long_rope(void) {
    static const char pair[] = "phi3_long", qkv[] = "blk.1.attn_qkv.weight", both[] = "blk.0.ffn_up.weight";
    static const char *const factors[] = {"rope_factors_long.weight", "rope_factors_short.weight"};
    bytes b;
    b.data = get(pair, "model.gguf", &b.n);
    for (size_t i = 0; i < SAC_COUNT(factors); i++) {
        rename_it(&b, factors[i]);
        DAMAGED_LANGUAGE(factors[i], "is missing");
        set_dim(&b, factors[i], 0, 5);
        DAMAGED_LANGUAGE(factors[i], "must be 6 f32 values");
        set_dim(&b, factors[i], 0, UINT64_MAX);
        DAMAGED_LANGUAGE(factors[i]);
    }
    set_u32(&b, "phi3.rope.dimension_count", 10);
    DAMAGED_LANGUAGE("must be 5 f32 values");
    set_u32(&b, "phi3.rope.dimension_count", 18);
    DAMAGED_LANGUAGE("");
    set_f32(&b, "phi3.rope.scaling.attn_factor", NAN);
    DAMAGED_LANGUAGE("attn_factor");
    set_u32(&b, "phi3.rope.scaling.original_context_length", 0);
    DAMAGED_LANGUAGE("original context");
    set_u32(&b, "phi3.rope.scaling.original_context_length", 1);
    DAMAGED_LANGUAGE("needs an original context above 1");
    rename_it(&b, qkv);
    DAMAGED_LANGUAGE(qkv, "is missing");
    set_dim(&b, qkv, 1, 63);
    DAMAGED_LANGUAGE(qkv, "the configuration asks for [64, 32]");
    set_dim(&b, both, 1, 22);
    DAMAGED_LANGUAGE(both, "the configuration asks for [44, 32]");
    set_u32(&b, "phi3.attention.head_count_kv", 2);
    DAMAGED_LANGUAGE("has shape");
    memcpy(behind(&b, "general.architecture") + 12, "phi2", 4);
    DAMAGED_LANGUAGE("\"phi2\" is not supported");
    free(b.data);
}

static void damaged_languages(void **state) {
    (void)state;
    damage_common("gemma3", "gemma3", "blk.0.attn_norm.weight");
    damage_common("gemma2", "gemma2", "blk.0.post_ffw_norm.weight");
    damage_common("granite", "granite", "blk.0.ffn_norm.weight");
    damage_common("olmo2", "olmo2", "blk.0.post_attention_norm.weight");
    damage_common("smollm3", "smollm3", "blk.0.attn_norm.weight");
    damage_number("gemma3", "gemma3", "attention.scale");
    damage_number("gemma3", "gemma3", "rope.freq_base_swa");
    damage_number("gemma2", "gemma2", "attn_logit_softcapping");
    damage_number("gemma2", "gemma2", "final_logit_softcapping");
    damage_number("granite", "granite", "logit_scale");
    damage_number("granite", "granite", "residual_scale");
    damage_number("granite", "granite", "embedding_scale");
    damage_common("qwen3_moe", "qwen3moe", "blk.0.attn_norm.weight");
    damage_experts();
    damage_common("mixtral", "llama", "blk.0.ffn_norm.weight");
    damage_common("olmoe", "olmoe", "blk.1.attn_q_norm.weight");
    damage_common("granitemoe", "granitemoe", "blk.0.attn_norm.weight");
    damage_number("granitemoe", "granitemoe", "residual_scale");
    damage_common("glm4_moe", "glm4moe", "blk.1.exp_probs_b.bias");
    damage_routed();
    damage_common("glm4", "glm4", "blk.0.post_ffw_norm.weight");
    damage_hybrid("qwen3_5_moe_text", "qwen35moe");
    damage_decay("qwen3_5_moe_text");
    damage_latents();
    gate_of_bias();
    damage_grouped();
    damage_long_rope();
    const char *pair = "gemma3_pan";
    bytes b;
    b.data = get(pair, "model.gguf", &b.n);
    b.data[behind(&b, "gemma3.block_count") - b.data + 4] = 2;
    DAMAGED_LANGUAGE("lists 3 layers of 2");
    rename_it(&b, "general.architecture");
    DAMAGED_LANGUAGE("general.architecture is missing");
    memcpy(behind(&b, "general.architecture") + 12, "llama4", 6);
    DAMAGED_LANGUAGE("\"llama4\" is not supported; the nearest that is: llama");
    free(b.data);
}

int main(int argc, char **argv) {
    int code;
    json_t *index = open_pairs(argc, argv, &code);
    if (!index) return code;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_in_blocks_stay_off_devices),
        cmocka_unit_test(joined_latents_are_let_go),
        cmocka_unit_test_setup_teardown(no_groups_may_be_said_as_0, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(damaged_languages, make_folder, remove_folder),
        {"written_again", written_again, make_folder, remove_folder, index},
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    json_decref(index);
    return failed;
}
