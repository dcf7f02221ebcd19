#define _POSIX_C_SOURCE 200809L
/* Configuration, families and opening of models: the tiny checkpoints of tests/golden/models, and copies of
 * them that something is wrong with. */
#include "binder.h"
#include "clip.h"
#include "family.h"
#include "family_spec.h"
#include "merger_mlp.h"
#include "model.h"
#include "test.h"

#include <unistd.h>

#define TINY "tests/golden/models/"

static void says(const sac_error *err, const char *expect) {
    if (!strstr(err->text, expect)) fail_msg("\"%s\" does not say \"%s\"", err->text, expect);
    assert_null(strchr(err->text, '\n'));
}

/* ---- config.json ---- */

static sac_status read_config(sac_model_config *c, const char *text, sac_error *err) {
    json_t *config;
    SAC_TRY(sac_json_parse(&config, text, strlen(text), err));
    sac_status st = sac_model_config_read(c, config, err);
    c->tower_name = NULL; /* lived in the JSON */
    json_decref(config);
    return st;
}

static void config_defaults_are_the_published_models(void **state) {
    (void)state;
    static sac_model_config c;
    sac_error err;
    assert_ok(
        read_config(
            &c, /* of LLaVA-1.5-7B */
            "{\"architectures\":[\"LlavaForConditionalGeneration\"],\"text_config\":{\"vocab_size\":32064}}",
            &err),
        err);
    assert_string_equal(c.family->name, "llava");
    assert_string_equal(c.text_family->name, "llama");
    assert_int_equal(c.decoder.hidden, 4096);
    assert_int_equal(c.decoder.n_kv_heads, 32);
    assert_int_equal(c.decoder.head_dim, 128);
    assert_int_equal(c.tower.image_size, 336);
    assert_int_equal(c.tower.n_feature_layers, 1);
    assert_int_equal(c.tower.feature_layer[0], 23); /* -2 of 24 layers: the input of the last */
    assert_int_equal(c.image_token, 32000);
}

static void config_default_image_token_must_be_a_token(void **state) {
    (void)state;
    static sac_model_config c;
    sac_error err;
    sac_status st = read_config(&c,
                                "{\"model_type\":\"llava\",\"text_config\":{\"vocab_size\":100},"
                                "\"vision_config\":{}}",
                                &err);
    assert_int_equal(st, SAC_BAD_FILE);
    says(&err, "image_token_index");
}

static void config_reads_what_is_given(void **state) {
    (void)state;
    static sac_model_config c;
    sac_error err;
    assert_ok(
        read_config(
            &c,
            "{\"model_type\":\"llava\",\"image_token_id\":7,\"tie_word_embeddings\":true,"
            "\"vision_feature_layer\":[-1,0,2],\"vision_feature_select_strategy\":\"full\","
            "\"projector_hidden_act\":\"gelu_pytorch_tanh\",\"multimodal_projector_bias\":false,"
            "\"eos_token_id\":9,"
            "\"text_config\":{\"model_type\":\"mistral\",\"vocab_size\":50,\"hidden_size\":12,"
            "\"num_attention_heads\":4,\"num_key_value_heads\":null,\"head_dim\":6,\"eos_token_id\":[3,4],"
            "\"sliding_window\":null,\"rope_parameters\":{\"rope_type\":\"yarn\",\"rope_theta\":500,"
            "\"factor\":4,\"original_max_position_embeddings\":64,\"beta_fast\":16,\"truncate\":false}},"
            "\"vision_config\":{\"num_hidden_layers\":5,\"image_size\":[30,30],\"patch_size\":7}}",
            &err),
        err);
    assert_int_equal(c.decoder.n_kv_heads, 4);
    assert_int_equal(c.decoder.head_dim, 6);
    assert_int_equal(c.decoder.sliding_window, 0);
    assert_int_equal(c.decoder.rope.scaling, SAC_ROPE_YARN);
    assert_true(c.decoder.rope.theta == 500 && c.decoder.rope.factor == 4 && c.decoder.rope.beta_fast == 16);
    assert_true(c.decoder.rope.original_max_position == 64 && !c.decoder.rope.truncate);
    assert_true(c.tied_head);
    assert_false(c.projector_bias);
    assert_int_equal(c.projector_act, SAC_ACT_GELU_TANH);
    assert_int_equal(c.tower.n_feature_layers, 3);
    assert_int_equal(c.tower.feature_layer[0], 5);
    assert_int_equal(c.tower.feature_layer[1], 0);
    assert_true(c.tower.keep_class);
    assert_int_equal(c.n_stop_ids, 1); /* the outer key stands before text_config's */
    assert_int_equal(c.stop_ids[0], 9);
}

/* As in transformers' AutoConfig, and Ministral's layers without a window. */
static void config_model_type_decides(void **state) {
    (void)state;
    static const struct {
        const char *text, *family;
        int window;
    } cases[] = {
        {"{\"model_type\":\"mistral\",\"architectures\":[\"LlamaForCausalLM\"]}", "mistral", 4096},
        {"{\"model_type\":\"llava_next\",\"architectures\":[\"LlavaForConditionalGeneration\"],\"image_token_"
         "index\":7}",
         "llava_next", 0},
        {"{\"architectures\":[\"MistralForCausalLM\"]}", "mistral", 4096},
        {"{\"model_type\":\"mistral\",\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\","
         "\"full_attention\"]}",
         "mistral", 0},
        {"{\"model_type\":\"mistral\",\"num_hidden_layers\":1,\"layer_types\":[\"sliding_attention\"]}",
         "mistral", 4096},
        {"{\"model_type\":\"qwen2\",\"use_sliding_window\":true,\"max_window_layers\":28}", "qwen2", 4096},
        {"{\"model_type\":\"qwen2\",\"use_sliding_window\":true,\"max_window_layers\":32}", "qwen2", 0},
        {"{\"model_type\":\"gemma3_text\",\"sliding_window_pattern\":1}", "gemma3_text", 0},
        {"{\"model_type\":\"gemma3_text\",\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\","
         "\"sliding_attention\"],\"sliding_window_pattern\":1}",
         "gemma3_text", 4096},
        {"{\"model_type\":\"mistral\",\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\","
         "\"sliding_attention\"]}",
         "mistral", 4096},
    };
    static sac_model_config c;
    sac_error err;
    for (size_t i = 0; i < SAC_COUNT(cases); i++) {
        assert_ok(read_config(&c, cases[i].text, &err), err);
        assert_string_equal(c.family->name, cases[i].family);
        assert_int_equal(c.decoder.sliding_window, cases[i].window);
    }
}

#define LLAMA(keys)  "{\"model_type\":\"llama\"," keys "}"
#define GEMMA(keys)  "{\"model_type\":\"gemma3_text\"," keys "}"
#define GEMMA3(keys) "{\"model_type\":\"gemma3\"," keys "}"
#define QWEN2(keys)  "{\"model_type\":\"qwen2\"," keys "}"
#define LLAVA(keys)  "{\"model_type\":\"llava\"," keys "}"
#define LONGVA(keys) "{\"model_type\":\"llava_qwen\"," keys "}"
#define GLM4_MOE(keys)  "{\"model_type\":\"glm4_moe\",\"hidden_size\":4608," keys "}"
#define GLM4V_MOE(keys) "{\"model_type\":\"glm4v_moe\"," keys "}"
#define KIMI(keys)   "{\"model_type\":\"kimi_vl\"," keys "}"
#define GLM4V(keys)  "{\"model_type\":\"glm4v\"," keys "}"
#define NEXT_VIDEO(keys) "{\"model_type\":\"llava_next_video\",\"image_token_index\":5," keys "}"
#define ROPE(keys)   LLAMA("\"rope_scaling\":{" keys "}")

static void config_refuses(void **state) {
    (void)state;
    static const struct {
        const char *text, *expect;
    } cases[] = {
        {"[]", "not a JSON object"},
        {"{}", "not a model's config.json"},
        {"{\"architectures\":[]}", "not a model's config.json"},
        {"{\"architectures\":\"x\"}", "\"architectures\""},
        {"{\"model_type\":\"gpt2\"}",
         "model_type gpt2) is not supported, nor is one near it; these are: llama, mistral"},
        {"{\"model_type\":\"glm4_moe_lite\",\"architectures\":[\"Glm4MoeLiteForCausalLM\"]}",
         "Glm4MoeLiteForCausalLM (model_type glm4_moe_lite) is not supported; the nearest that is: glm4_moe"},
        {GLM4_MOE("\"n_group\":3"), "\"n_group\" is 3; 128 experts do not stand in so many equal groups"},
        {GLM4_MOE("\"n_group\":128"), "\"n_group\" is 128"},
        {GLM4_MOE("\"n_group\":4,\"topk_group\":5"), "\"topk_group\" is 5, but there are 4 groups"},
        {GLM4_MOE("\"n_group\":32"), "8 experts of a token, but \"topk_group\" 1 of 32 groups have 4"},
        {GLM4_MOE("\"n_group\":0"), "\"n_group\" is 0"},
        {GLM4_MOE("\"topk_group\":\"a\""), "\"topk_group\" must be an integer"},
        {GLM4_MOE("\"n_routed_experts\":7"), "8 experts of a token, but there are 7"},
        {GLM4_MOE("\"n_routed_experts\":1025"), "\"n_routed_experts\" is 1025"},
        {GLM4_MOE("\"routed_scaling_factor\":0"), "\"routed_scaling_factor\""},
        {GLM4_MOE("\"routed_scaling_factor\":-1"), "\"routed_scaling_factor\""},
        {GLM4_MOE("\"n_shared_experts\":100000"), "intermediate size of shared experts"},
        {GLM4_MOE("\"n_shared_experts\":-1"), "\"n_shared_experts\" is -1"},
        {GLM4_MOE("\"first_k_dense_replace\":-1"), "\"first_k_dense_replace\" is -1"},
        {GLM4_MOE("\"norm_topk_prob\":1"), "\"norm_topk_prob\" must be true or false"},
        {GLM4_MOE("\"hidden_act\":\"gelu\""), "only silu"},
        {GLM4_MOE("\"head_dim\":128,\"partial_rotary_factor\":0.01"), "1 of 128 channels"},
        {KIMI("\"text_config\":{\"model_type\":\"deepseek_v2\"}"),
         "text_config: model_type \"deepseek_v2\" is not supported under kimi_vl"},
        {KIMI("\"text_config\":{\"topk_method\":\"greedy\"}"), "\"topk_method\""},
        {KIMI("\"text_config\":[]"), "\"text_config\""},
        {KIMI("\"vision_config\":{\"model_type\":\"siglip_vision_model\"}"), "vision_config: model_type \"siglip_vision_model\""},
        {KIMI("\"vision_config\":{\"init_pos_emb_height\":32}"), "\"init_pos_emb_height\" 32 beside \"init_pos_emb_width\" 64"},
        {KIMI("\"vision_config\":{\"init_pos_emb_width\":0}"), "\"init_pos_emb_width\" is 0"},
        {KIMI("\"vision_config\":{\"merge_kernel_size\":[2,1]}"), "\"merge_kernel_size\" must be one size"},
        {KIMI("\"vision_config\":{\"merge_kernel_size\":17}"), "patches a side of a square"},
        {KIMI("\"vision_config\":{\"patch_size\":4096}"), "pixels of a square of patches"},
        {KIMI("\"vision_config\":{\"hidden_size\":1120,\"num_attention_heads\":16,\"intermediate_size\":0}"),
         "\"intermediate_size\" is 0"},
        {KIMI("\"vision_config\":{\"hidden_size\":1120}"), "vision heads of 70 channels"},
        {KIMI("\"vision_config\":{\"num_attention_heads\":7}"), "1152 is not a multiple of 7 heads"},
        {KIMI("\"media_placeholder_token_id\":129280"), "\"media_placeholder_token_id\" is 129280"},
        {GLM4V_MOE("\"text_config\":{\"model_type\":\"glm4v_text\"}"), "not supported under glm4v_moe; glm4v_moe_text is"},
        {GLM4V_MOE("\"text_config\":{\"head_dim\":128,\"use_qk_norm\":true}"), "\"use_qk_norm\" is true"},
        {GLM4V_MOE("\"text_config\":{\"head_dim\":96}"), "\"mrope_section\" adds up to 32"},
        {GLM4V_MOE("\"text_config\":{\"head_dim\":128,\"n_group\":5}"), "text_config: \"n_group\" is 5"},
        {GLM4V("\"text_config\":{\"model_type\":\"glm4v_moe_text\"}"), "text_config: model_type \"glm4v_moe_text\""},
        {GLM4V("\"text_config\":{\"attention_bias\":false}"), "\"attention_bias\" is false"},
        {GLM4V("\"text_config\":{\"head_dim\":96,\"partial_rotary_factor\":0.5,\"rope_scaling\":{\"mrope_section\":[8,8,8]}}"),
         "text_config: \"head_dim\" is 96"},
        {GLM4V("\"text_config\":{\"partial_rotary_factor\":0.5,\"rope_scaling\":{\"mrope_section\":[8,12,13]}}"),
         "\"mrope_section\" adds up to 33"},
        {GLM4V("\"text_config\":{\"partial_rotary_factor\":0.5},\"vision_config\":{\"temporal_patch_size\":3}"),
         "\"temporal_patch_size\" is 3"},
        {GLM4V("\"text_config\":{\"partial_rotary_factor\":0.5},\"vision_config\":{\"hidden_act\":\"gelu\"}"), "\"hidden_act\""},
        {GLM4V("\"text_config\":{\"partial_rotary_factor\":0.5},\"vision_config\":{\"image_size\":13}"), "\"image_size\" 13"},
        {GLM4V("\"text_config\":{\"partial_rotary_factor\":0.5},\"vision_config\":{\"out_hidden_size\":64}"), "\"out_hidden_size\" 64"},
        {GLM4V("\"text_config\":{\"partial_rotary_factor\":1.5}"), "\"partial_rotary_factor\" is 1.5"},
        {"{\"model_type\":\"glm4\",\"partial_rotary_factor\":0.01}", "1 of 128 channels"},
        {"{\"model_type\":\"llava\",\"architectures\":[\"LlavaLlamaForCausalLM\"]}", "LlavaLlamaForCausalLM"},
        {"{\"model_type\":\"gpt_neox\",\"architectures\":[\"LlamaForCausalLM\"]}", "model_type gpt_neox"},
        {LLAMA("\"is_causal\":false"), "\"is_causal\" is false"},
        {LLAVA("\"text_config\":{\"is_causal\":false}"), "text_config: \"is_causal\" is false"},
        {LLAVA("\"image_token_index\":7,\"is_causal\":false"), "\"is_causal\" is false"},
        {"{\"model_type\":\"mistral\",\"num_hidden_layers\":1,\"layer_types\":[\"chunked_attention\"]}",
         "layer 0 is \"chunked_attention\""},
        {"{\"model_type\":\"mistral\",\"layer_types\":[\"full_attention\"]}", "lists 1 layers of 32"},
        {GEMMA("\"sliding_window\":null"), "\"sliding_window\" is null"},
        {GEMMA("\"sliding_window\":0"), "sliding_window"},
        {GEMMA("\"sliding_window_pattern\":0"), "sliding_window_pattern"},
        {GEMMA("\"layer_types\":[\"full_attention\"]"), "lists 1 layers of 26"},
        {GEMMA("\"query_pre_attn_scalar\":0"), "query_pre_attn_scalar"},
        {GEMMA("\"query_pre_attn_scalar\":\"big\""), "query_pre_attn_scalar"},
        {GEMMA("\"hidden_activation\":\"relu\""), "\"hidden_activation\" is \"relu\""},
        {GEMMA("\"rope_parameters\":{\"rope_theta\":5}"), "neither \"full_attention\""},
        {GEMMA("\"rope_parameters\":{\"sliding_attention\":3}"), "sliding_attention"},
        {GEMMA("\"rope_parameters\":{\"sliding_attention\":{\"rope_type\":\"dynamic\",\"factor\":2}}"),
         "sliding layers: rope type \"dynamic\""},
        {GEMMA("\"rope_parameters\":{\"sliding_attention\":{\"rope_type\":\"linear\"}}"), "needs a \"factor\""},
        {GEMMA("\"rope_local_base_freq\":-1"), "rope_theta"},
        {GEMMA("\"final_logit_softcapping\":-3"), "final_logit_softcapping"},
        {GEMMA3("\"text_config\":{\"final_logit_softcapping\":30.0}"), "final_logit_softcapping"},
        {GEMMA3("\"text_config\":{\"model_type\":\"llama\"}"), "llama"},
        {GEMMA3("\"mm_tokens_per_image\":15"), "mm_tokens_per_image"},
        {GEMMA3("\"mm_tokens_per_image\":0"), "mm_tokens_per_image"},
        {GEMMA3("\"vision_config\":{\"image_size\":896}"), "mm_tokens_per_image"},
        {GEMMA3("\"mm_tokens_per_image\":196,\"image_token_index\":300000"), "image_token_index"},
        {GEMMA3("\"vision_config\":{\"model_type\":\"clip_vision_model\"}"), "not supported under gemma3"},
        {LLAMA("\"hidden_size\":0"), "\"hidden_size\" is 0"},
        {LLAMA("\"hidden_size\":\"big\""), "\"hidden_size\" must be an integer"},
        {LLAMA("\"hidden_size\":99999999999"), "\"hidden_size\" is 99999999999"},
        {LLAMA("\"num_hidden_layers\":-1"), "\"num_hidden_layers\""},
        {LLAMA("\"vocab_size\":1e300"), "\"vocab_size\""},
        {LLAMA("\"num_attention_heads\":3"), "\"hidden_size\" 4096 is not a multiple"},
        {LLAMA("\"num_key_value_heads\":5"), "32 heads cannot share 5 key-value heads"},
        {LLAMA("\"head_dim\":7"), "7 of 7 channels"},
        {LLAMA("\"head_dim\":1024,\"num_attention_heads\":4096"), "heads times head size"},
        {LLAMA("\"rms_norm_eps\":-1"), "\"rms_norm_eps\""},
        {LLAMA("\"rms_norm_eps\":0"), "\"rms_norm_eps\""},
        {LLAMA("\"hidden_act\":\"gelu\""), "only silu"},
        {LLAMA("\"mlp_bias\":true"), "\"mlp_bias\""},
        {LLAMA("\"tie_word_embeddings\":1"), "\"tie_word_embeddings\" must be true or false"},
        {LLAMA("\"eos_token_id\":32000"), "\"eos_token_id\" must hold ids from 0 to 31999"},
        {LLAMA("\"eos_token_id\":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]"), "more than 16"},
        {LLAMA("\"rope_theta\":0"), "\"rope_theta\""},
        {LLAMA("\"partial_rotary_factor\":0.5"), "\"partial_rotary_factor\""},
        {ROPE("\"type\":\"longrope\",\"factor\":2"), "rope type \"longrope\" is not supported"},
        {ROPE("\"rope_type\":\"linear\""), "needs a \"factor\""},
        {ROPE("\"rope_type\":\"linear\",\"factor\":0"), "\"factor\" is 0"},
        {ROPE("\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,\"high_freq_factor\":4"),
         "must be above"},
        {ROPE("\"rope_type\":\"yarn\",\"factor\":2,\"rope_theta\":1"), "above 1"},
        {"{\"model_type\":\"llama\",\"head_dim\":2,\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}}",
         "more than 2"},
        {"{\"model_type\":\"mistral\",\"sliding_window\":0}", "\"sliding_window\" is 0"},
        {LLAVA("\"text_config\":{\"model_type\":\"gemma\"}"),
         "model_type \"gemma\" is not supported under llava"},
        {LLAVA("\"text_config\":{\"model_type\":\"llava\"}"),
         "model_type \"llava\" is not supported under llava"},
        {LLAVA("\"text_config\":[]"), "\"text_config\""},
        {LLAVA("\"text_config\":{\"hidden_size\":-5}"), "text_config: \"hidden_size\""},
        {LLAVA("\"vision_config\":{\"model_type\":\"dinov2\"}"), "dinov2"},
        {LLAVA("\"vision_config\":{\"model_type\":\"qwen2_vl_vision\"}"), "under llava"},
        {LLAVA("\"vision_config\":{\"model_type\":\"siglip_vision_model\"}"), "would drop a patch"},
        {LLAVA("\"vision_config\":{\"patch_size\":225}"), "patch size is 225"},
        {LLAVA("\"vision_config\":{\"image_size\":4096,\"patch_size\":1}"), "patches a side is 4096"},
        {LLAVA("\"vision_config\":{\"image_size\":[224,336]}"), "\"image_size\" must be one size"},
        {LLAVA("\"vision_config\":{\"num_attention_heads\":5}"), "not a multiple of 5 heads"},
        {LLAVA("\"vision_config\":{\"num_channels\":1}"), "\"num_channels\" is 1"},
        {LLAVA("\"vision_config\":{\"hidden_act\":\"relu\"}"), "\"hidden_act\" is \"relu\""},
        {LLAVA("\"vision_feature_layer\":25"), "layers 0 to 24"},
        {LLAVA("\"vision_feature_layer\":-26"), "layers 0 to 24"},
        {LLAVA("\"vision_feature_layer\":[]"), "lists 0 layers"},
        {LLAVA("\"vision_feature_layer\":[1,\"2\"]"), "must be a layer or a list"},
        {LLAVA("\"vision_feature_select_strategy\":\"cls\""), "must be default or full"},
        {LLAVA("\"image_token_index\":32000"), "\"image_token_index\" is 32000"},
        {LONGVA("\"mm_patch_merge_type\":\"spatial\""), "\"mm_patch_merge_type\" is \"spatial\""},
        {LONGVA("\"mm_patch_merge_type\":\"unires\",\"mm_projector_type\":\"mlp2x_gelu\",\"mm_vision_tower\":"
                "\"clip-vit-base-patch32\",\"image_aspect_ratio\":\"pad\""),
         "only anyres"},
        {LONGVA("\"mm_patch_merge_type\":\"spatial_unpad\",\"mm_projector_type\":\"mlp2x_gelu\",\"mm_vision_"
                "tower\":"
                "\"clip-vit-base-patch32\""),
         "LLaVA-OneVision is supported with siglip"},
        {LONGVA("\"mm_patch_merge_type\":\"spatial_unpad\",\"mm_projector_type\":\"mlp2x_gelu\",\"mm_vision_"
                "tower\":"
                "\"siglip-so400m-patch14-384\",\"mm_spatial_pool_stride\":4"),
         "\"mm_spatial_pool_stride\" is 4"},
        {NEXT_VIDEO("\"spatial_pool_mode\":\"conv\""), "only average"},
        {NEXT_VIDEO("\"vision_feature_select_strategy\":\"full\""), "not supported under llava_next_video"},
        {NEXT_VIDEO("\"video_token_index\":32002"), "\"video_token_index\" is 32002"},
        {LONGVA("\"mm_patch_merge_type\":\"unires\",\"mm_projector_type\":\"linear\""), "only mlp2x_gelu"},
        {LONGVA("\"mm_patch_merge_type\":\"unires\",\"mm_projector_type\":\"mlp2x_gelu\""),
         "\"mm_vision_tower\""},
        {LONGVA("\"mm_patch_merge_type\":\"unires\",\"mm_projector_type\":\"mlp2x_gelu\",\"mm_vision_tower\":"
                "\"x/y\""),
         "x/y are not known"},
    };
    static sac_model_config c;
    for (size_t i = 0; i < SAC_COUNT(cases); i++) {
        sac_error err = {0};
        if (read_config(&c, cases[i].text, &err) == SAC_OK) fail_msg("accepted: %s", cases[i].text);
        says(&err, cases[i].expect);
    }
}

/* ---- families ---- */

static void every_yaml_fits_the_structs(void **state) {
    (void)state;
    sac_error err;
    for (int i = 0; i < sac_n_family_yaml; i++)
        assert_ok(sac_bind_check_spec(sac_family_yaml[i].name, &err), err);
    for (int i = 0; sac_families[i]; i++) {
        sac_family_spec spec;
        assert_ok(sac_family_spec_open(&spec, sac_families[i]->name, &err), err);
        assert_string_equal(spec.family, sac_families[i]->name);
        assert_non_null(sac_chat_find(spec.chat));
        const bool is_of_folders = spec.architectures.n > 0 && spec.model_types.n > 0;
        assert_true(is_of_folders || (spec.mmproj.projectors.n > 0 && !spec.architectures.n && !spec.model_types.n));
        sac_family_spec_free(&spec);
    }
    assert_null(sac_family_find(sac_families, "nothing"));
}

static void yaml_refused(const char *text, size_t n, const char *expect) {
    sac_family_spec spec;
    sac_error err = {0};
    assert_int_equal(sac_family_spec_parse(&spec, text, n, &err), SAC_BAD_CONFIG);
    says(&err, expect);
}

static void yaml_refuses(void **state) {
    (void)state;
    static const struct {
        const char *text, *expect;
    } cases[] = {
        {"", "empty"},
        {"- a", "line 1: a mapping is expected"},
        {"family: [a]", "line 1: a single value is expected"},
        {"family: a\nfamly: b", "line 2: unknown key"},
        {"family: a\nfamily: b", "line 2: the key is there twice"},
        {"text: a", "line 1: a list is expected"},
        {"text: [a, [b]]", "line 1: a single value is expected"},
        {"text: [a, b, c, d, e, f, g, h, i]", "too long"},
        {"tensors: {q: {names: [a]}}", "needs names and a shape"},
        {"tensors: {q: {name: [a]}}", "unknown key of a tensor"},
        {"tensors: {q: {spread: key}}", "no such value"},
        {"{", "line"},
        {"a: &x *x", "line"},
        {"? {a: b}\n: c", "a single value is expected"},
    };
    for (size_t i = 0; i < SAC_COUNT(cases); i++)
        yaml_refused(cases[i].text, strlen(cases[i].text), cases[i].expect);
    size_t n = 60000;
    char *deep = malloc(n);
    memset(deep, '[', n);
    yaml_refused(deep, n, "line");
    memset(deep, ' ', n);
    free(deep);
    char *big = calloc(1, SAC_SPEC_MAX_BYTES + 1);
    yaml_refused(big, SAC_SPEC_MAX_BYTES + 1, "more than");
    free(big);
}

/* ---- opening ---- */

static void opens_tiny_models(void **state) {
    (void)state;
    sac_loaded_model m;
    sac_error err;
    assert_ok(sac_loaded_model_open(&m, TINY "llava", NULL, NULL, &err), err);
    assert_string_equal(m.family, "llava");
    assert_true(m.has_vision);
    assert_int_equal(m.dtype, SAC_DTYPE_BF16);
    assert_int_equal(m.decoder.config.hidden, 32);
    assert_false(m.decoder.config.tied_head);
    assert_int_equal(m.tower.config.feature_layer[0], 2);
    assert_int_equal(sac_clip_weights_of(&m.tower)->patch_embed.tensor.n_dims, 2);
    assert_int_equal(sac_clip_weights_of(&m.tower)->patch_embed.tensor.dim[1], 3 * 7 * 7);
    assert_int_equal(m.merger.in, 24);
    assert_int_equal(m.processor.tile_size, 30);
    assert_non_null(((const sac_merger_mlp_weights *)m.merger.weights)->fc1_bias);
    assert_null(m.image_newline);
    assert_int_equal(m.stop_ids[0], 280);
    for (int i = 1; i < m.n_tensors; i++) assert_true(strcmp(m.tensors[i - 1].name, m.tensors[i].name) < 0);
    sac_loaded_model_free(&m);
    sac_loaded_model_free(&m);

    assert_ok(sac_loaded_model_open(&m, TINY "llava_next", NULL, NULL, &err), err);
    assert_ptr_equal(m.processor.dialect, &sac_dialect_anyres);
    assert_non_null(m.image_newline);
    sac_loaded_model_free(&m);

    assert_ok(sac_loaded_model_open(&m, TINY "longva_tower", NULL, NULL, &err), err);
    assert_int_equal(m.frame_layout, SAC_FRAMES_JOINED);
    sac_visual_plan plan;
    assert_ok(sac_processor_plan_frame(&m.processor, 28, 28, 0, &plan, &err), err);
    assert_int_equal(plan.pool, 2);
    assert_int_equal(m.image_token, -200);
    sac_loaded_model_free(&m);

    assert_ok(sac_loaded_model_open(&m, TINY "gguf_qwen2_q4_k/q4_k.gguf", NULL, NULL, &err), err);
    assert_int_equal(m.dtype, SAC_DTYPE_Q4_K);
    assert_true(m.decoder.config.tied_head);
    assert_false(m.decoder.config.rope.interleaved);
    assert_non_null(m.decoder.layers[1].k_bias);
    assert_ptr_equal(m.decoder.head.tensor.data, m.decoder.embed.tensor.data);
    sac_loaded_model_free(&m);

    assert_ok(sac_loaded_model_open(&m, TINY "gguf_llama_f16/f16.gguf", NULL, NULL, &err), err);
    assert_true(m.decoder.config.rope.interleaved);
    assert_null(m.decoder.layers[0].q_bias);
    assert_int_equal(m.stop_ids[0], 280);
    sac_loaded_model_free(&m);
}

typedef struct progress {
    int64_t done, total, calls;
} progress;

static void on_progress(void *ctx, int64_t done, int64_t total) {
    progress *p = ctx;
    assert_true(done == p->done + 1 && done <= total && (p->calls == 0 || total == p->total));
    p->done = done;
    p->total = total;
    p->calls++;
}

static void reports_progress(void **state) {
    (void)state;
    sac_loaded_model m;
    sac_error err;
    progress p = {0};
    assert_ok(sac_loaded_model_open(&m, TINY "llama_f32", on_progress, &p, &err), err);
    assert_true(p.calls > 0 && p.done == p.total);
    sac_loaded_model_free(&m);
}

static void fingerprint_of(const char *path, uint8_t out[32]) {
    sac_loaded_model m;
    sac_error err;
    assert_ok(sac_loaded_model_open(&m, path, NULL, NULL, &err), err);
    memcpy(out, m.fingerprint, 32);
    sac_loaded_model_free(&m);
}

/* ---- what is wrong with a copy ---- */

static char folder[64];

static void shell(const char *format, ...) {
    char command[512];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    if (system(command) != 0) fail_msg("%s", command);
}

static int copy_of(const char *name) {
    strcpy(folder, "/tmp/sac_model_XXXXXX");
    if (!mkdtemp(folder)) return 1;
    shell("cp -r " TINY "%s/. %s/ && chmod -R u+w %s", name, folder, folder);
    return 0;
}
static int remove_copy(void **state) {
    (void)state;
    shell("rm -r '%s'", folder);
    return 0;
}
static int copy_llama(void **state) {
    (void)state;
    return copy_of("llama_f32");
}
static int copy_llava(void **state) {
    (void)state;
    return copy_of("llava_full");
}
static int copy_longva(void **state) {
    (void)state;
    return copy_of("longva_tower");
}

static char *slurp(const char *name, size_t *n) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *text;
    sac_error err;
    assert_ok(sac_file_read(&text, n, path, (size_t)1 << 24, &err), err);
    return text;
}
static void spit(const char *name, const char *bytes, size_t n) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}
/* In place, same length: offsets stay. */
static void replace(const char *name, const char *from, const char *to) {
    size_t n;
    char *text = slurp(name, &n);
    char *at = NULL;
    for (size_t i = 0; i + strlen(from) <= n && !at; i++)
        if (memcmp(text + i, from, strlen(from)) == 0) at = text + i;
    if (!at) fail_msg("%s is not in %s", from, name);
    assert_int_equal(strlen(from), strlen(to));
    memcpy(at, to, strlen(to));
    spit(name, text, n);
    free(text);
}

static void refused(sac_status status, const char *expect) {
    sac_loaded_model m;
    sac_error err = {0};
    sac_status st = sac_loaded_model_open(&m, folder, NULL, NULL, &err);
    if (st == SAC_OK) fail_msg("opened");
    says(&err, expect);
    assert_int_equal(st, status);
    assert_null(m.checkpoint);
}

static void refuses_missing_and_misshapen_tensors(void **state) {
    (void)state;
    size_t n;
    char *weights = slurp("model.safetensors", &n);
    replace("model.safetensors", "model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.up_proj.heavie");
    refused(SAC_BAD_FILE, "tensor model.layers.1.mlp.up_proj.weight is missing");
    spit("model.safetensors", weights, n);
    replace("model.safetensors", "[51,24]", "[24,51]");
    refused(SAC_BAD_FILE, "has shape [24, 51], the configuration asks for [51, 24]");
    spit("model.safetensors", weights, n);
    replace("model.safetensors", "\"dtype\":\"F32\",\"shape\":[24]", "\"dtype\":\"I32\",\"shape\":[24]");
    refused(SAC_UNSUPPORTED, "is i32");
    spit("model.safetensors", weights, n);
    replace("model.safetensors", "lm_head.weight", "lm_tail.weight");
    refused(SAC_BAD_FILE, "\"tie_word_embeddings\" is false");
    spit("model.safetensors", weights, n / 2);
    refused(SAC_BAD_FILE, "model.safetensors: tensor");
    spit("model.safetensors", weights, 9);
    refused(SAC_BAD_FILE, "truncated");
    spit("model.safetensors", weights, n);
    free(weights);
    shell("sed -i 's/\"intermediate_size\": 51/\"intermediate_size\": 52/' %s/config.json", folder);
    refused(SAC_BAD_FILE, "has shape [51, 24], the configuration asks for [52, 24]");
}

#define ADAPTERS "tests/golden/adapters/llama_f32/"

/* The first weight of layer 0's query projection, which the adapter "attention" changes. */
static float first_query_weight(const char *path, const char *adapter) {
    sac_loaded_model m;
    sac_error err;
    const sac_load_options o = {.adapters = &adapter, .n_adapters = adapter != NULL};
    assert_ok(sac_loaded_model_open_with(&m, path, &o, &err), err);
    float w;
    memcpy(&w, m.decoder.layers[0].q.tensor.data, sizeof w);
    sac_loaded_model_free(&m);
    return w;
}

/* Beside a model it is merged by itself; a folder of nothing else stands for its base, where that can be found. */
static void merges_an_adapter_in_the_folder(void **state) {
    (void)state;
    float base = first_query_weight(folder, NULL), merged = first_query_weight(folder, ADAPTERS "attention");
    assert_true(base != merged);
    assert_true(first_query_weight(ADAPTERS "attention", NULL) == merged);
    shell("cp " ADAPTERS "attention/* %s", folder);
    assert_true(first_query_weight(folder, NULL) == merged);
    assert_true(first_query_weight(folder, ADAPTERS "attention:-1") != merged);
    shell("rm %s/adapter_model.safetensors", folder);
    refused(SAC_NOT_FOUND, "adapter_model.safetensors: No such file: download incomplete");
    shell("touch %s/adapter_model.bin", folder);
    refused(SAC_UNSUPPORTED,
            "adapter_model.bin: a file of Python's pickle; write it as adapter_model.safetensors");
    shell("rm %s/model.safetensors", folder);
    shell("sed -i s,tests/golden/models/llama_f32,owls/owl-7b, %s/adapter_config.json", folder);
    refused(SAC_NOT_FOUND, "the base owls/owl-7b is no folder here: fetch it (\"hf download owls/owl-7b");
}

/* What a picture's rows depend on besides the base. */
static void fingerprint_has_adapters(void **state) {
    (void)state;
    static const char *const specs[] = {NULL, "tower_full", "tower_full:0.5", "projector"};
    uint8_t prints[SAC_COUNT(specs)][32];
    for (size_t i = 0; i < SAC_COUNT(specs); i++) {
        sac_loaded_model m;
        sac_error err;
        char path[200];
        snprintf(path, sizeof path, "tests/golden/adapters/llava_full/%s", specs[i] ? specs[i] : "");
        const char *adapter = path;
        const sac_load_options o = {.adapters = &adapter, .n_adapters = specs[i] != NULL};
        assert_ok(sac_loaded_model_open_with(&m, TINY "llava_full", &o, &err), err);
        memcpy(prints[i], m.fingerprint, 32);
        sac_loaded_model_free(&m);
        for (size_t k = 0; k < i; k++) assert_memory_not_equal(prints[i], prints[k], 32);
    }
}

static void refuses_missing_files(void **state) {
    (void)state;
    sac_loaded_model m;
    sac_error err = {0};
    assert_int_equal(sac_loaded_model_open(&m, "/nonexistent", NULL, NULL, &err), SAC_NOT_FOUND);
    says(&err, "/nonexistent: no such file or folder; give a Hugging Face folder or a .gguf file");
    assert_int_equal(sac_loaded_model_open(&m, TINY "index.json", NULL, NULL, &err), SAC_BAD_FILE);
    says(&err, "index.json: one file of a checkpoint; give the folder that it is in");
    assert_int_equal(sac_loaded_model_open(&m, "tests", NULL, NULL, &err), SAC_NOT_FOUND);
    says(&err, "no config.json in tests: give a Hugging Face folder or a .gguf file");
    shell("rm %s/tokenizer.json", folder);
    refused(SAC_NOT_FOUND, "no tokenizer.json");
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
    spit("model.safetensors", pointer, sizeof pointer - 1);
    refused(SAC_BAD_FILE, "model.safetensors: a Git LFS pointer, not the weights: run \"git lfs pull\"");
    shell("rm %s/model.safetensors", folder);
    refused(SAC_NOT_FOUND, "no model.safetensors");
    spit("config.json", "{\"model_type\": ", 15);
    refused(SAC_BAD_FILE, "config.json: not valid JSON");
    spit("config.json", "[]", 2);
    refused(SAC_BAD_FILE, "config.json: not a JSON object");
    spit("config.json", "", 0);
    refused(SAC_BAD_FILE, "config.json: empty");
    size_t depth = 1 << 20;
    char *deep = malloc(depth);
    memset(deep, '[', depth);
    spit("config.json", deep, depth);
    free(deep);
    refused(SAC_BAD_FILE, "config.json: not valid JSON");
}

/* The template that conversations are written by is of this file. */
static void assert_source(const sac_loaded_model *m, const char *end) {
    assert_null(m->chat.format);
    const char *source = sac_chat_template_source(m->chat.plain);
    assert_true(strlen(source) > strlen(end));
    assert_string_equal(source + strlen(source) - strlen(end), end);
}

static void reads_generation_and_chat(void **state) {
    (void)state;
    const char *g =
        "{\"eos_token_id\":[5,6],\"do_sample\":true,\"temperature\":0.6,\"top_p\":0.9,\"top_k\":20}";
    spit("generation_config.json", g, strlen(g));
    const char *t = "{\"chat_template\":[{\"name\":\"tool\",\"template\":\"ASSISTANT:\"},"
                    "{\"name\":\"default\",\"template\":\"{% for m in messages %}<|im_start|>{{ m.role "
                    "}}\\n{{ m.content }}<|im_end|>\\n"
                    "{% endfor %}\"}]}";
    spit("tokenizer_config.json", t, strlen(t));
    sac_loaded_model m;
    sac_error err;
    assert_ok(sac_loaded_model_open(&m, folder, NULL, NULL, &err), err);
    assert_ok(sac_loaded_model_set_chat(&m, NULL, &err), err);
    assert_source(&m, "tokenizer_config.json (chat_template)");
    assert_int_equal(m.stop_ids[0], 5);
    assert_int_equal(m.stop_ids[1], 6);
    bool end_of_turn = false; /* <|im_end|>, which the template writes behind an answer */
    for (int i = 2; i < m.n_stop_ids; i++) end_of_turn |= m.stop_ids[i] == 283;
    assert_true(end_of_turn);
    assert_true(m.generation.do_sample && m.generation.temperature == 0.6 && m.generation.top_k == 20);
    sac_loaded_model_free(&m);
    spit("chat_template.jinja", "USER: {{ messages[0].content }}",
         31); /* comes before tokenizer_config.json */
    assert_ok(sac_loaded_model_open(&m, folder, NULL, NULL, &err), err);
    assert_ok(sac_loaded_model_set_chat(&m, NULL, &err), err);
    assert_source(&m, "chat_template.jinja");
    sac_loaded_model_free(&m);
    /* integers of any size, as Python writes them, in each of the files */
    shell("rm %s/chat_template.jinja", folder);
    const char *large = "{\"chat_template\":\"USER: {{ messages[0].content }}\","
                        "\"model_max_length\": 1000000000000000019884624838656}";
    spit("tokenizer_config.json", large, strlen(large));
    const char *limit = "{\"x\": -1000000000000000019884624838656, "
                        "\"max_length\": 1000000000000000019884624838656}";
    spit("generation_config.json", limit, strlen(limit));
    shell("sed -i '0,/{/s//{ \"large\": 1000000000000000019884624838656,/' %s/config.json", folder);
    assert_ok(sac_loaded_model_open(&m, folder, NULL, NULL, &err), err);
    assert_ok(sac_loaded_model_set_chat(&m, NULL, &err), err);
    assert_source(&m, "tokenizer_config.json (chat_template)");
    sac_loaded_model_free(&m);
    shell("sed -i '0,/{/s//{ \"transformers_weights\": \"other.safetensors\",/' %s/config.json", folder);
    refused(SAC_UNSUPPORTED, "\"transformers_weights\" is \"other.safetensors\"; rename");
    shell("sed -i 's/\"transformers_weights\": \"other.safetensors\",//' %s/config.json", folder);
    spit("generation_config.json", "{\"top_p\":2}", 11);
    refused(SAC_BAD_FILE, "generation_config.json: \"top_p\" is 2");
    spit("generation_config.json", "{\"eos_token_id\":\"x\"}", 20);
    refused(SAC_BAD_FILE, "\"eos_token_id\"");
}

/* The GGUF file with one more metadata key of 1 or 4 bytes, and one without meaning that fills up to 96 bytes,
 * so that the tensors stay aligned. */
static void gguf_with(const char *key, uint32_t type, const void *value, size_t value_bytes) {
    uint8_t more[96] = {0};
    char filler[64] = "................................................";
    size_t n = strlen(key), at = 0, n_bytes;
    size_t n_filler = sizeof more - (8 + n + 4 + value_bytes) - 16;
    memcpy(more, &n, 8);
    memcpy(more + 8, key, n);
    memcpy(more + 8 + n, &type, 4);
    memcpy(more + 12 + n, value, value_bytes);
    at = 12 + n + value_bytes;
    uint32_t type_u32 = 4;
    memcpy(more + at, &n_filler, 8);
    memcpy(more + at + 8, filler, n_filler);
    memcpy(more + at + 8 + n_filler, &type_u32, 4);
    char *text;
    sac_error err;
    assert_ok(sac_file_read(&text, &n_bytes, TINY "gguf_llama_f16/f16.gguf", (size_t)1 << 24, &err), err);
    char *whole = malloc(n_bytes + sizeof more);
    memcpy(whole, text, 24);
    memcpy(whole + 24, more, sizeof more);
    memcpy(whole + 24 + sizeof more, text + 24, n_bytes - 24);
    uint64_t n_keys;
    memcpy(&n_keys, text + 16, 8);
    n_keys += 2;
    memcpy(whole + 16, &n_keys, 8);
    spit("x.gguf", whole, n_bytes + sizeof more);
    free(whole);
    free(text);
}

/* llama.cpp: a factor without a type is linear, also under its old name. */
static void gguf_scaling_and_mask(void **state) {
    (void)state;
    const char *const keys[] = {"llama.rope.scaling.factor", "llama.rope.scale_linear"};
    const float factor = 4;
    char path[64];
    snprintf(path, sizeof path, "%s/x.gguf", folder);
    sac_loaded_model m;
    sac_error err;
    for (size_t i = 0; i < SAC_COUNT(keys); i++) {
        gguf_with(keys[i], 6, &factor, sizeof factor);
        assert_ok(sac_loaded_model_open(&m, path, NULL, NULL, &err), err);
        assert_int_equal(m.decoder.config.rope.scaling, SAC_ROPE_LINEAR);
        assert_true(m.decoder.config.rope.factor == 4);
        sac_loaded_model_free(&m);
    }
    const uint8_t no = 0;
    gguf_with("llama.attention.causal", 7, &no, 1);
    assert_int_equal(sac_loaded_model_open(&m, path, NULL, NULL, &err), SAC_UNSUPPORTED);
    says(&err, "llama.attention.causal is false");
}

/* "general.sampling.*" are defaults; a temperature above 0 asks for sampling. */
static void gguf_sampling(void **state) {
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "%s/x.gguf", folder);
    sac_loaded_model m;
    sac_error err;
    const sac_generation_config *g = &m.generation;
    const double *fields[] = {&g->temperature,
                              &g->top_p,
                              &g->min_p,
                              &g->repetition_penalty,
                              &g->controls.xtc_probability,
                              &g->controls.xtc_threshold,
                              &g->controls.mirostat_tau,
                              &g->controls.mirostat_eta};
    static const char *const names[] = {"temp",           "top_p",           "min_p",
                                        "penalty_repeat", "xtc_probability", "xtc_threshold",
                                        "mirostat_tau",   "mirostat_eta"};
    const float half = 0.5f, far = 1e6f, none = 0;
    char key[48];
    for (size_t i = 0; i < SAC_COUNT(names); i++) {
        snprintf(key, sizeof key, "general.sampling.%s", names[i]);
        gguf_with(key, 6, &half, sizeof half);
        assert_ok(sac_loaded_model_open(&m, path, NULL, NULL, &err), err);
        assert_true(*fields[i] == 0.5 && g->do_sample == (i == 0));
        sac_loaded_model_free(&m);
        gguf_with(key, 6, &far, sizeof far);
        assert_int_equal(sac_loaded_model_open(&m, path, NULL, NULL, &err), SAC_BAD_FILE);
        says(&err, "general.sampling");
    }
    gguf_with("general.sampling.temp", 6, &none, sizeof none);
    assert_ok(sac_loaded_model_open(&m, path, NULL, NULL, &err), err);
    assert_false(g->do_sample);
    sac_loaded_model_free(&m);
    const int32_t two = 2;
    gguf_with("general.sampling.top_k", 5, &two, sizeof two);
    assert_ok(sac_loaded_model_open(&m, path, NULL, NULL, &err), err);
    assert_int_equal(g->top_k, 2);
    sac_loaded_model_free(&m);
    gguf_with("general.sampling.mirostat", 5, &two, sizeof two);
    assert_ok(sac_loaded_model_open(&m, path, NULL, NULL, &err), err);
    assert_int_equal(g->controls.mirostat, 2);
    sac_loaded_model_free(&m);
}

/* Every key of the file is kept, with what it does. */
static void generation_keys(void **state) {
    (void)state;
    static const char text[] =
        "{\"temperature\":0.5,\"guidance_scale\":1,\"stop_strings\":[\"a\"],\"use_cache\":true,"
        "\"num_beams\":1,\"surprise\":7}";
    const int kinds[] = {SAC_SETTING_OF_SAMPLING, SAC_SETTING_HONOURED, SAC_SETTING_HONOURED,
                         SAC_SETTING_QUIET,       SAC_SETTING_QUIET,    SAC_SETTING_UNKNOWN};
    sac_loaded_model m;
    sac_error err;
    spit("generation_config.json", text, sizeof text - 1);
    assert_ok(sac_loaded_model_open(&m, folder, NULL, NULL, &err), err);
    assert_int_equal(m.generation.n_keys, (int)SAC_COUNT(kinds));
    for (int i = 0; i < m.generation.n_keys; i++) assert_int_equal(m.generation.keys[i].kind, kinds[i]);
    assert_string_equal(m.generation.keys[2].value, "[\"a\"]");
    assert_string_equal(m.generation.unknown, "surprise");
    assert_false(sac_controls_guide(&m.generation.controls));
    sac_loaded_model_free(&m);
}

/* Weights at odd addresses are copied, so that they are read as aligned ones. */
static void takes_unaligned_weights(void **state) {
    (void)state;
    size_t n;
    char *weights = slurp("model.safetensors", &n);
    char *shifted = malloc(n + 1);
    uint64_t header;
    memcpy(&header, weights, 8);
    memcpy(shifted + 8, weights + 8, header);
    shifted[8 + header] = ' '; /* white space is JSON */
    memcpy(shifted + 9 + header, weights + 8 + header, n - 8 - header);
    header++;
    memcpy(shifted, &header, 8);
    spit("model.safetensors", shifted, n + 1);
    free(weights);
    free(shifted);
    sac_loaded_model a, b;
    sac_error err;
    assert_ok(sac_loaded_model_open(&a, TINY "llama_f32", NULL, NULL, &err), err);
    assert_ok(sac_loaded_model_open(&b, folder, NULL, NULL, &err), err);
    assert_int_equal((uintptr_t)b.decoder.layers[1].up.tensor.data % 4, 0);
    assert_memory_equal(a.decoder.layers[1].up.tensor.data, b.decoder.layers[1].up.tensor.data, 51 * 24 * 4);
    assert_memory_equal(a.decoder.final_norm, b.decoder.final_norm, 24 * 4);
    sac_loaded_model_free(&a);
    sac_loaded_model_free(&b);
}

static void fingerprint_follows_the_vision_part(void **state) {
    (void)state;
    uint8_t a[32], b[32];
    fingerprint_of(TINY "llava_full", a);
    fingerprint_of(folder, b);
    assert_memory_equal(a, b, 32);
    shell("sed -i 's/\"resample\": 3/\"resample\": 2/' %s/preprocessor_config.json", folder);
    fingerprint_of(folder, b);
    assert_memory_not_equal(a, b, 32);
    shell("cp " TINY "llava_full/preprocessor_config.json %s/", folder);
    size_t n;
    char *weights = slurp("model.safetensors", &n);
    weights[n - 1] ^= 1; /* the last tensor by name is the tower's */
    spit("model.safetensors", weights, n);
    free(weights);
    fingerprint_of(folder, b);
    assert_memory_not_equal(a, b, 32);
}

static void refuses_a_missing_tower(void **state) {
    (void)state;
    shell("sed -i '0,/{/s//{ \"text_config\": {\"quantization_config\": {}},/' %s/config.json", folder);
    refused(SAC_UNSUPPORTED, "text_config: \"quantization_config\": weights quantised with");
    shell("sed -i 's/\"text_config\": {\"quantization_config\": {}},//' %s/config.json", folder);
    shell("rm %s/vision_tower/model.safetensors", folder);
    refused(SAC_NOT_FOUND, "vision_tower: no model.safetensors");
    shell("rm -r %s/vision_tower", folder);
    refused(SAC_NOT_FOUND, "put that model into");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(config_defaults_are_the_published_models),
        cmocka_unit_test(config_default_image_token_must_be_a_token),
        cmocka_unit_test(config_reads_what_is_given),
        cmocka_unit_test(config_model_type_decides),
        cmocka_unit_test(config_refuses),
        cmocka_unit_test(every_yaml_fits_the_structs),
        cmocka_unit_test(yaml_refuses),
        cmocka_unit_test(opens_tiny_models),
        cmocka_unit_test(reports_progress),
        cmocka_unit_test_setup_teardown(refuses_missing_and_misshapen_tensors, copy_llama, remove_copy),
        cmocka_unit_test_setup_teardown(merges_an_adapter_in_the_folder, copy_llama, remove_copy),
        cmocka_unit_test(fingerprint_has_adapters),
        cmocka_unit_test_setup_teardown(refuses_missing_files, copy_llama, remove_copy),
        cmocka_unit_test_setup_teardown(reads_generation_and_chat, copy_llama, remove_copy),
        cmocka_unit_test_setup_teardown(gguf_scaling_and_mask, copy_llama, remove_copy),
        cmocka_unit_test_setup_teardown(gguf_sampling, copy_llama, remove_copy),
        cmocka_unit_test_setup_teardown(generation_keys, copy_llama, remove_copy),
        cmocka_unit_test_setup_teardown(takes_unaligned_weights, copy_llama, remove_copy),
        cmocka_unit_test_setup_teardown(fingerprint_follows_the_vision_part, copy_llava, remove_copy),
        cmocka_unit_test_setup_teardown(refuses_a_missing_tower, copy_longva, remove_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
