/* GGUF language models with a vision half in a file of its own, through the public API: pairs of tools/make_gguf_pair.py
 * against the twin folders that say the same, and pairs that are none. Their folder is the argument, or
 * $SACCADE_GGUF_PAIRS. */
#define _DEFAULT_SOURCE
#include "gguf_pairs.h"

static void same_as_twin(void **state) {
    char path[PATH_BYTES];
    compare(*state, path_of(path, text_of(*state, "name"), "model.gguf"), NULL);
}

/* ---- which file it is ---- */

static void opens(const char *mmproj, bool has_vision, const char *file) {
    sac_error err;
    sac_model *m;
    sac_model_info info;
    assert_ok(open_here(&m, mmproj, &err), err);
    sac_model_get_info(m, &info);
    assert_int_equal(info.has_vision, has_vision);
    assert_int_equal(info.mmproj != NULL, has_vision);
    if (has_vision && !strstr(info.mmproj, file)) fail_msg("%s, not %s", info.mmproj, file);
    sac_model_free(m);
}

static void is_found_beside(void **state) {
    (void)state;
    char path[PATH_BYTES];
    copy("llava", "model.gguf", "model.gguf");
    opens(NULL, false, NULL);
    opens(path_of(path, "llava", "mmproj.gguf"), true, "llava/mmproj.gguf");
    copy("llava", "mmproj.gguf", "mmproj-tiny-f32.gguf");
    copy("llava", "mmproj.gguf", "other-mmproj.gguf");
    opens(NULL, true, "/mmproj-tiny-f32.gguf");
    opens("none", false, NULL);
    copy("llava", "mmproj.gguf", "mmproj-b.gguf");
    REFUSED(NULL, "2 vision halves", "mmproj-b.gguf, mmproj-tiny-f32.gguf", "--mmproj FILE", "--mmproj none");
    opens("none", false, NULL);
    snprintf(path, sizeof path, "%s/mmproj-b.gguf", folder);
    opens(path, true, "/mmproj-b.gguf");
    REFUSED("/nonexistent.gguf", "--mmproj /nonexistent.gguf: no such file");
}

static void of_other_models(void **state) {
    (void)state;
    char path[PATH_BYTES];
    sac_error err;
    sac_model *m;
    sac_model_options o;
    copy("llava", "model.gguf", "model.gguf");
    REFUSED(path_of(path, "qwen2_5_vl", "mmproj.gguf"), "qwen2_5_vl/mmproj.gguf", "stands on qwen2vl",
            "is llama");
    REFUSED(path_of(path, "llava", "model.gguf"), "not a vision half");
    copy("qwen2_5_vl", "mmproj.gguf", "mmproj.gguf");
    REFUSED(NULL, "mmproj.gguf (found beside the model; --mmproj none goes without it)", "stands on qwen2vl");
    copy("llava_wide", "model.gguf", "model.gguf");
    REFUSED(path_of(path, "internvl", "mmproj.gguf"), "no token <IMG_CONTEXT>");
    sac_model_options_default(&o);
    o.mmproj = path_of(path, "llava", "mmproj.gguf");
    assert_int_equal(sac_model_open(&m, FOLDER "/llava", &o, &err), SAC_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "is a folder"));
    assert_int_equal(sac_model_open(&m, path, NULL, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "--mmproj"));
}

static sac_session *read_three(sac_model *m) {
    sac_error err;
    sac_session *s;
    sac_session_config config;
    const int32_t ids[] = {40, 41, 42};
    sac_session_config_default(&config);
    config.n_ctx = 64;
    assert_ok(sac_session_create(&s, m, &config, &err), err);
    assert_ok(sac_session_append(s, ids, SAC_COUNT(ids), NULL, &err), err);
    return s;
}

/* Text is what it is with the vision half; a picture for a language model alone is refused. */
static void text_alone(void **state) {
    (void)state;
    static const sac_part picture = {.kind = SAC_PART_IMAGE, .path = FOLDER "/wide.png"};
    const sac_message message = {.role = "user", .parts = &picture, .n_parts = 1};
    static const char *const halves[] = {"llava", "qwen2_5_vl", "qwen3_vl", "internvl", "smolvlm", "pixtral", "glm4v", "kimi_vl", "lighton_ocr", "glm_ocr",
                                         "paddleocr_vl"};
    for (size_t i = 0; i < SAC_COUNT(halves); i++) {
        sac_error err;
        sac_model *alone, *whole;
        sac_model_info info;
        char path[PATH_BYTES];
        copy(halves[i], "model.gguf", "model.gguf");
        assert_ok(open_here(&alone, "none", &err), err);
        assert_ok(open_here(&whole, path_of(path, halves[i], "mmproj.gguf"), &err), err);
        sac_model_get_info(alone, &info);
        sac_session *a = read_three(alone), *b = read_three(whole);
        assert_memory_equal(sac_session_logits(a), sac_session_logits(b), (size_t)info.vocab * sizeof(float));
        sac_session_reset(a);
        assert_int_not_equal(sac_session_prefill(a, &message, 1, NULL, &err), SAC_OK);
        sac_session_free(a);
        sac_session_free(b);
        sac_model_free(alone);
        sac_model_free(whole);
    }
}

/* ---- damage ---- */

static void damaged_keys(void **state) {
    (void)state;
    static const char pair[] = "llava";
    static const char *const needed[] = {
        "clip.vision.embedding_length", "clip.vision.attention.head_count",
        "clip.vision.block_count",      "clip.vision.patch_size",
        "clip.vision.image_size",       "clip.vision.attention.layer_norm_epsilon",
        "clip.vision.image_mean",       "clip.vision.image_std",
        "clip.projector_type"};
    static const uint32_t sizes[] = {0, 1u << 31, 0xffffffffu, 1u << 30};
    bytes b = begin(pair);
    for (size_t i = 0; i < SAC_COUNT(needed); i++) {
        rename_it(&b, needed[i]);
        DAMAGED(needed[i], "is missing");
    }
    for (size_t i = 0; i < 5; i++)
        for (size_t k = 0; k < SAC_COUNT(sizes); k++) {
            set_u32(&b, needed[i], sizes[k]);
            DAMAGED("");
        }
    set_u32(&b, "clip.vision.block_count", 3);
    DAMAGED("v.blk.2.", "is missing");
    set_u32(&b, "clip.vision.patch_size", 5);
    DAMAGED("v.patch_embd.weight has shape");
    set_u32(&b, "clip.vision.attention.head_count", 5);
    DAMAGED("multiple of 5 heads");
    set_u32(&b, "clip.vision.feed_forward_length", 36);
    DAMAGED("v.blk.0.ffn_up.weight has shape");
    set_f32(&b, "clip.vision.attention.layer_norm_epsilon", NAN);
    DAMAGED("clip.vision.attention.layer_norm_epsilon");
    set_f32(&b, "clip.vision.attention.layer_norm_epsilon", -1);
    DAMAGED("clip.vision.attention.layer_norm_epsilon is -1");
    set_item(&b, "clip.vision.image_std", 1, 0);
    DAMAGED("\"image_std\"");
    behind(&b, "clip.has_vision_encoder")[4] = 0;
    DAMAGED("\"clip.has_vision_encoder\" is false");
    memcpy(behind(&b, "clip.projector_type") + 12, "ldp", 3);
    DAMAGED("projector \"ldp\" is not supported", "mlp", "qwen2.5vl_merger");
    memcpy(behind(&b, "general.architecture") + 12, "clop", 4);
    DAMAGED("general.architecture is clop");
    free(b.data);
}

static void damaged_tensors(void **state) {
    (void)state;
    static const char pair[] = "llava";
    static const char *const names[] = {
        "v.class_embd",       "v.patch_embd.weight", "v.position_embd.weight",  "v.pre_ln.bias",
        "v.blk.1.ln2.weight", "v.blk.0.attn_k.bias", "v.blk.1.attn_out.weight", "v.blk.1.ffn_down.bias",
        "mm.0.bias",          "mm.2.weight"};
    bytes b = begin(pair);
    for (size_t i = 0; i < SAC_COUNT(names); i++) {
        rename_it(&b, names[i]);
        DAMAGED(names[i], "is missing");
    }
    for (size_t i = 0; i < SAC_COUNT(names);
         i++) { /* dimensions that are never read before they are checked */
        set_dim(&b, names[i], 0, UINT64_MAX);
        DAMAGED(names[i]);
        set_dim(&b, names[i], 0, 0);
        DAMAGED(names[i]);
    }
    for (size_t k = 1; k <= 16; k++) { /* cut anywhere */
        b.n = b.n * k / 17;
        DAMAGED("");
    }
    set_dim(&b, "mm.2.weight", 1, 31);
    DAMAGED("mm.2.weight makes rows of 31 numbers", "not halves of one model");
    memcpy(behind(&b, "v.blk.0.attn_q.weight") - 6, "x", 1); /* attn_q becomes another */
    DAMAGED("attn_q.weight is missing");
    free(b.data);
}

/* Parts that are put together before they are bound. */
static void damaged_parts(void **state) {
    (void)state;
    static const char pair[] = "qwen2_5_vl";
    bytes b = begin(pair);
    rename_it(&b, "v.patch_embd.weight.1");
    b.data[behind(&b, "v.patch_embd.weight.\x11") - b.data - 1] = '2';
    DAMAGED("v.patch_embd.weight.1 is missing");
    set_dim(&b, "v.patch_embd.weight.1", 0, 3);
    DAMAGED("two convolutions");
    set_dim(&b, "v.patch_embd.weight", 3, 23);
    DAMAGED("v.patch_embd.weight");
    set_dim(&b, "v.blk.1.attn_k.weight", 1, 12);
    DAMAGED("attn_qkv.weight has shape [60, 24]");
    set_dim(&b, "v.blk.1.attn_k.weight", 0, 12);
    DAMAGED("v.blk.1.attn_k.weight are not alike");
    rename_it(&b, "v.blk.2.attn_v.bias");
    DAMAGED("v.blk.2.attn_qkv.bias is missing");
    set_u32(&b, "clip.vision.window_size", 0);
    DAMAGED("\"window_size\"");
    rename_it(&b, "clip.vision.n_wa_pattern");
    DAMAGED("clip.vision.n_wa_pattern is missing");
    set_u32(&b, "clip.vision.n_wa_pattern", 1u << 20);
    DAMAGED("clip.vision.n_wa_pattern");
    set_u32(&b, "clip.vision.spatial_merge_size", 300);
    DAMAGED("\"spatial_merge_size\"");
    set_u32(&b, "clip.vision.image_max_pixels", 5);
    DAMAGED("\"max_pixels\" 5 is below \"min_pixels\"");
    set_u32(&b, "clip.vision.projection_dim", 64);
    DAMAGED("\"out_hidden_size\" 64 is not the language model's 32");
    free(b.data);
}

static void damaged_squares(void **state) {
    (void)state;
    static const char pair[] = "gemma3", scale[] = "clip.vision.projector.scale_factor";
    bytes b = begin(pair);
    rename_it(&b, scale); /* then squares are of 4 x 4 */
    DAMAGED("6 x 6 patches are not whole squares of 4 a side");
    set_u32(&b, scale, 0);
    DAMAGED(scale);
    set_u32(&b, scale, 5);
    DAMAGED("not whole squares of 5");
    set_dim(&b, "mm.input_projection.weight", 0, 23);
    DAMAGED("mm.input_projection.weight");
    set_dim(&b, "mm.soft_emb_norm.weight", 0, 23);
    DAMAGED("mm.soft_emb_norm.weight has shape");
    rename_it(&b, "v.post_ln.bias");
    DAMAGED("v.post_ln.bias is missing");
    free(b.data);
}

/* Mistral 3: squares that are joined, and pairs of rotations that stand side by side. */
static void damaged_joins(void **state) {
    (void)state;
    static const char pair[] = "mistral3";
    bytes b = begin(pair);
    rename_it(&b, "clip.vision.spatial_merge_size");
    DAMAGED("clip.vision.spatial_merge_size is missing, but tensor mm.patch_merger.weight");
    set_u32(&b, "clip.vision.spatial_merge_size", 3);
    DAMAGED("mm.patch_merger.weight has shape");
    set_u32(&b, "clip.vision.spatial_merge_size", 0);
    DAMAGED("\"spatial_merge_size\"");
    rename_it(&b, "clip.vision.image_size");
    DAMAGED("clip.vision.image_size is missing");
    set_u32(&b, "clip.vision.image_size", 0);
    DAMAGED("clip.vision.image_size must be");
    rename_it(&b, "mm.patch_merger.weight");
    DAMAGED("mm.patch_merger.weight is missing");
    set_dim(&b, "v.blk.1.attn_k.weight", 1, 12);
    DAMAGED("v.blk.1.attn_k.weight is no matrix of 16 rows");
    rename_it(&b, "v.blk.0.attn_q.weight");
    DAMAGED("v.blk.0.attn_q.weight is missing");
    rename_it(&b, "v.pre_ln.weight");
    DAMAGED("v.pre_ln.weight is missing");
    set_dim(&b, "mm.1.weight", 0, 15);
    DAMAGED("mm.1.weight has shape");
    set_u32(&b, "clip.vision.attention.head_count", 8); /* heads of two channels have no rows and columns */
    DAMAGED("multiple of 4");
    free(b.data);
}

/* Pixtral, whose projector joins nothing. */
static void damaged_pixtral(void **state) {
    (void)state;
    static const char pair[] = "pixtral";
    static const char *const tensors[] = {"mm.1.weight", "mm.2.weight", "v.pre_ln.weight", "v.blk.1.attn_q.weight", "v.patch_embd.weight"};
    bytes b = begin(pair);
    for (size_t i = 0; i < SAC_COUNT(tensors); i++) {
        rename_it(&b, tensors[i]);
        DAMAGED(tensors[i], "is missing");
        set_dim(&b, tensors[i], 0, UINT64_MAX);
        DAMAGED(tensors[i]);
    }
    set_dim(&b, "mm.1.weight", 0, 15);
    DAMAGED("mm.1.weight has shape");
    rename_it(&b, "mm.1.bias"); /* one of two */
    DAMAGED("mm.1.bias is missing");
    set_u32(&b, "clip.vision.image_size", 0);
    DAMAGED("clip.vision.image_size must be");
    set_u32(&b, "clip.vision.attention.head_count", 8);
    DAMAGED("multiple of 4");
    copy("llava", "model.gguf", "model.gguf");
    REFUSED(path_of((char[PATH_BYTES]){0}, "pixtral", "mmproj.gguf"), "");
    free(b.data);
}

/* GLM-4.1V: a convolution joins squares, and a gated MLP follows. */
static void damaged_glm(void **state) {
    (void)state;
    static const char pair[] = "glm4v";
    static const char *const tensors[] = {"v.patch_embd.bias",    "v.norm_embd.weight",  "v.position_embd.weight", "v.post_ln.weight",
                                          "v.blk.1.attn_qkv.weight", "v.blk.0.ffn_gate.weight", "mm.patch_merger.weight", "mm.patch_merger.bias",
                                          "mm.post_norm.bias",    "mm.gate.weight",      "mm.down.weight"};
    bytes b = begin(pair);
    for (size_t i = 0; i < SAC_COUNT(tensors); i++) {
        rename_it(&b, tensors[i]);
        DAMAGED(tensors[i], "is missing");
        set_dim(&b, tensors[i], 0, UINT64_MAX);
        DAMAGED(tensors[i]);
        set_dim(&b, tensors[i], 0, 0);
        DAMAGED(tensors[i]);
    }
    set_dim(&b, "mm.up.weight", 1, 43);
    DAMAGED("has shape [44, 24], the configuration asks for [43, 24]");
    rename_it(&b, "mm.up.weight");
    DAMAGED("\"intermediate_size\" is 0");
    set_dim(&b, "mm.model.fc.weight", 1, 20);
    DAMAGED("\"out_hidden_size\" 20 is not the language model's 24");
    set_u32(&b, "clip.vision.spatial_merge_size", 3);
    DAMAGED("mm.patch_merger.weight has shape");
    set_u32(&b, "clip.vision.image_size", 5);
    DAMAGED("\"image_size\" 5 is smaller than a patch");
    set_u32(&b, "clip.vision.image_size", 42);
    DAMAGED("v.position_embd.weight has shape");
    set_u32(&b, "clip.vision.image_min_pixels", 0);
    DAMAGED("clip.vision.image_min_pixels");
    set_u32(&b, "clip.vision.image_max_pixels", 1u << 31);
    DAMAGED("clip.vision.image_max_pixels");
    behind(&b, "clip.use_silu")[4] = 0;
    DAMAGED("\"hidden_act\" must be silu");
    copy("qwen2_5_vl", "model.gguf", "model.gguf");
    REFUSED(path_of((char[PATH_BYTES]){0}, "glm4v", "mmproj.gguf"), "stands on glm4", "is qwen2vl");
    free(b.data);
}

/* Kimi-VL: positions of a square, and a vocabulary that has the picture's token. */
static void damaged_kimi(void **state) {
    (void)state;
    static const char pair[] = "kimi_vl";
    static const char *const tensors[] = {"v.patch_embd.bias", "v.post_ln.bias", "v.blk.1.attn_qkv.weight", "v.blk.0.ln2.bias",
                                          "v.blk.0.ffn_down.bias", "mm.input_norm.weight", "mm.1.bias", "mm.2.weight"};
    char path[PATH_BYTES];
    bytes b = begin(pair);
    for (size_t i = 0; i < SAC_COUNT(tensors); i++) {
        const bool is_whole = strstr(tensors[i], "attn_qkv") != NULL; /* three in the file */
        rename_it(&b, is_whole ? "v.blk.1.attn_k.weight" : tensors[i]);
        DAMAGED(tensors[i], "is missing");
    }
    set_dim(&b, "v.position_embd.weight", 1, 24);
    DAMAGED("v.position_embd.weight has 24 rows, which are no square");
    set_dim(&b, "v.position_embd.weight", 1, UINT64_MAX);
    DAMAGED("v.position_embd.weight");
    rename_it(&b, "v.position_embd.weight");
    DAMAGED("v.position_embd.weight has 0 rows");
    set_u32(&b, "clip.vision.projector.scale_factor", 3);
    DAMAGED("mm.1.weight has shape");
    behind(&b, "clip.use_gelu")[4] = 0;
    DAMAGED("clip.use_gelu is not true");
    copy("deepseek_v3", "model.gguf", "model.gguf");
    REFUSED(path_of(path, pair, "mmproj.gguf"), "no token <|media_pad|>");
    copy("llava", "model.gguf", "model.gguf");
    REFUSED(path_of(path, pair, "mmproj.gguf"), "stands on deepseek2", "is llama");
    free(b.data);
}

static void damaged_depths(void **state) {
    (void)state;
    static const char pair[] = "qwen3_vl";
    bytes b = begin(pair);
    behind(&b, "clip.vision.is_deepstack_layers")[16] = 0; /* one layer of two */
    DAMAGED("features of 1 layers", "takes those of 2");
    behind(&b, "clip.vision.is_deepstack_layers")[17] = 1; /* three */
    DAMAGED("features of 3 layers");
    behind(&b, "clip.vision.is_deepstack_layers")[16] = 0; /* another layer: the tensors are of layer 0 */
    behind(&b, "clip.vision.is_deepstack_layers")[17] = 1;
    DAMAGED("v.deepstack.1.norm.weight is missing");
    rename_it(&b, "v.deepstack.2.fc1.weight");
    DAMAGED("v.deepstack.2.fc1.weight is missing");
    set_dim(&b, "v.position_embd.weight", 1, 24);
    DAMAGED("\"num_position_embeddings\" 24 is not the square");
    set_dim(&b, "v.blk.0.attn_qkv.weight", 1, 71);
    DAMAGED("v.blk.0.attn_qkv.weight has shape");
    free(b.data);
    print_message("           %d damaged halves, one line each\n", n_damaged);
    assert_true(n_damaged >= 30);
}

int main(int argc, char **argv) {
    int code;
    json_t *index = open_pairs(argc, argv, &code);
    if (!index) return code;
    static struct CMUnitTest tests[MAX_PAIRS];
    size_t n = 0;
    for (; n < json_array_size(index); n++) {
        json_t *pair = json_array_get(index, n);
        tests[n] = (struct CMUnitTest){
            .name = text_of(pair, "name"), .test_func = same_as_twin, .initial_state = pair};
    }
    const struct CMUnitTest others[] = {
        cmocka_unit_test_setup_teardown(is_found_beside, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(of_other_models, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(text_alone, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(damaged_keys, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(damaged_tensors, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(damaged_parts, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(damaged_squares, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(damaged_joins, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(damaged_pixtral, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(damaged_glm, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(damaged_kimi, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(damaged_depths, make_folder, remove_folder),
    };
    int failed = _cmocka_run_group_tests("pairs", tests, n, NULL, NULL);
    failed += cmocka_run_group_tests_name("files", others, NULL, NULL);
    json_decref(index);
    return failed;
}
