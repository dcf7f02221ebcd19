#define _POSIX_C_SOURCE 200809L
/* What config.json says of a model, and the description of its family. */
#include "binder.h"
#include "family.h"
#include "family_spec.h"
#include "model.h"
#include "test.h"

#include <pthread.h>

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
    assert_says(err, "image_token_index");
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
        {"{\"model_type\":\"mistral3\",\"architectures\":[\"LightOnOCRForConditionalGeneration\"],\"image_token_id\":5,"
         "\"text_config\":{\"model_type\":\"qwen3\"}}",
         "lighton_ocr", 0},
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
        {"{\"model_type\":\"qwen3\",\"architectures\":[\"MineForCausalLM\"]}", "MineForCausalLM is not supported; others of model_type qwen3 are"},
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
        {"{\"model_type\":\"gemma3\",\"text_config\":{\"model_type\":\"llama\"}}",
         "text_config: model_type \"llama\" is not supported under gemma3; gemma3_text is"},
        {"{\"model_type\":\"smolvlm\",\"text_config\":{\"num_attention_heads\":0}}", "text_config: \"num_attention_heads\""},
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
        assert_says(err, cases[i].expect);
    }
}

/* ---- families ---- */

/* Written with an escape, they would not be found. */
static void all_mentioned(const sac_family_spec *spec, const sac_spec_list *items) {
    for (int i = 0; i < items->n; i++)
        if (!sac_family_spec_mentions(spec->family, items->item[i])) fail_msg("%s.yaml: %s stands otherwise there", spec->family, items->item[i]);
}

static void every_yaml_fits_the_structs(void **state) {
    (void)state;
    sac_error err;
    for (int i = 0; i < sac_n_family_yaml; i++)
        assert_ok(sac_bind_check_spec(sac_family_yaml[i].name, &err), err);
    for (int i = 0; sac_families[i]; i++) {
        const sac_family_spec *spec;
        assert_ok(sac_family_spec_find(&spec, sac_families[i]->name, &err), err);
        assert_string_equal(spec->family, sac_families[i]->name);
        assert_non_null(sac_chat_find(spec->chat));
        const bool is_of_folders = spec->architectures.n > 0 && spec->model_types.n > 0;
        const bool is_of_gguf = spec->mmproj.projectors.n > 0 || spec->gguf.n > 0;
        assert_true(is_of_folders || (is_of_gguf && !spec->architectures.n && !spec->model_types.n));
        all_mentioned(spec, &spec->architectures);
        all_mentioned(spec, &spec->model_types);
        all_mentioned(spec, &spec->gguf);
        all_mentioned(spec, &spec->mmproj.projectors);
    }
    assert_null(sac_family_find(sac_families, "nothing"));
}

static void *find_all(void *into) {
    const sac_family_spec **found = into;
    sac_error err;
    for (int i = 0; i < sac_n_family_yaml; i++)
        if (sac_family_spec_find(&found[i], sac_family_yaml[i].name, &err) != SAC_OK) found[i] = NULL;
    return NULL;
}

/* The first test: nothing is parsed yet. */
static void all_threads_find_the_same(void **state) {
    (void)state;
    enum { THREADS = 4 };
    const size_t n = (size_t)sac_n_family_yaml;
    const sac_family_spec **found = calloc(THREADS * n, sizeof *found);
    pthread_t thread[THREADS];
    for (size_t i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, find_all, found + i * n), 0);
    for (size_t i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    for (size_t i = 0; i < n; i++) {
        assert_non_null(found[i]);
        assert_string_equal(found[i]->family, sac_family_yaml[i].name);
        for (size_t k = 1; k < THREADS; k++) assert_ptr_equal(found[k * n + i], found[i]);
    }
    free(found);
}

static void yaml_refused(const char *text, size_t n, const char *expect) {
    sac_family_spec spec;
    sac_error err = {0};
    assert_int_equal(sac_family_spec_parse(&spec, text, n, &err), SAC_BAD_CONFIG);
    assert_says(err, expect);
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
    size_t n = 6000; /* libyaml takes the square of it */
    char *deep = malloc(n);
    memset(deep, '[', n);
    yaml_refused(deep, n, "line");
    memset(deep, ' ', n);
    free(deep);
    char *big = calloc(1, SAC_SPEC_MAX_BYTES + 1);
    yaml_refused(big, SAC_SPEC_MAX_BYTES + 1, "more than");
    free(big);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_threads_find_the_same),
        cmocka_unit_test(config_defaults_are_the_published_models),
        cmocka_unit_test(config_default_image_token_must_be_a_token),
        cmocka_unit_test(config_reads_what_is_given),
        cmocka_unit_test(config_model_type_decides),
        cmocka_unit_test(config_refuses),
        cmocka_unit_test(every_yaml_fits_the_structs),
        cmocka_unit_test(yaml_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
