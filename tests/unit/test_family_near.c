/* What the refusal of a model says is nearest, of names that folders and files have in 2026. */
#include "test.h"

#include "family.h"

static sac_error err;

/* Nothing is refused but by one line that names the nearest, or the families that there are. */
static void nearest_is(const char *config, const char *want) {
    const sac_family *family;
    char nearest[40];
    json_t *json = json_loads(config, 0, NULL);
    assert_non_null(json);
    assert_ok(sac_family_near_config(nearest, json, &err), err);
    if (strcmp(nearest, want)) fail_msg("%s: \"%s\", not \"%s\"", config, nearest, want);
    assert_int_equal(sac_family_of_config(&family, json, &err), SAC_UNSUPPORTED);
    const char *said = want[0] ? "is not supported; the nearest that is: " : "nor is one near it; these are: llama, mistral";
    const char *at = strstr(err.text, said);
    assert_non_null(at);
    if (want[0]) assert_string_equal(at + strlen(said), want);
    if (!want[0]) assert_non_null(strstr(err.text, " more"));
    assert_null(strchr(err.text, '\n'));
    assert_true(strlen(err.text) < sizeof err.text - 1);
    json_decref(json);
}

static void models_that_see(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"molmo", "llava_onevision"},
        {"molmo2", "llava_onevision"},
        {"aria", "kimi_vl"},
        {"ovis2", "internvl"},
        {"deepseek_vl_v2", "kimi_vl"},
        {"deepseek_ocr", "kimi_vl"},
        {"phi4_multimodal", "phi3"},
        {"phi3_v", "llava_next"},
        {"gemma3n", "gemma3"},
        {"gemma4", "gemma3"},
        {"paligemma", "gemma3"},
        {"llama4", "llama"},
        {"mllama", "llama"},
        {"cohere2_vision", "internvl"},
        {"aya_vision", "internvl"},
        {"lfm2_vl", "smolvlm"},
        {"janus", "llava"},
        {"idefics2", "idefics3"},
        {"video_llava", "llava_next_video"},
        {"video_llama_3", "qwen2_5_vl"},
        {"perception_lm", "llava_onevision"},
        {"ernie4_5_vl_moe", "qwen3_vl_moe"},
        {"kimi_k25", "kimi_vl"},
        {"Llama_Nemotron_Nano_VL", "internvl"},
        {"NemotronH_Nano_VL_V2", "internvl"},
        {"got_ocr2", "internvl"},
        {"minicpmv", "minicpmv4_6"},
        {"minicpmv4_7", "minicpmv4_6"},
        {"minicpmo", "minicpmv4_6"},
        {"internvideo", "internvl_chat"},
        {"internvl4", "internvl"},
        {"sa2va_chat", "internvl_chat"},
        {"qwen2_5_omni", "qwen2_5_vl"},
        {"qwen3_omni_moe", "qwen3_vl_moe"},
        {"qwen3_vl_next", "qwen3_vl"},
        {"mistral4", "mistral3"},
        {"florence2", ""},
        {"blip-2", ""},
        {"instructblip", ""},
        {"step3_vl", ""},
        {"chameleon", ""},
        {"minimax_m3_vl", ""},
    };
    char config[200];
    for (size_t i = 0; i < SAC_COUNT(cases); i++) {
        snprintf(config, sizeof config, "{\"model_type\":\"%s\",\"architectures\":[\"NoneOfOurs\"],\"vision_config\":{}}", cases[i][0]);
        nearest_is(config, cases[i][1]);
    }
}

static void models_of_text_and_sound(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"chatglm", "glm4"},       {"gpt_oss", "qwen3_moe"},     {"gemma", "gemma2"},           {"gemma4_text", "gemma3_text"},
        {"olmo3", "olmo2"},        {"phimoe", "mixtral"},        {"glm4_moe_lite", "glm4_moe"}, {"deepseek_v32", "deepseek_v3"},
        {"kimi_k2", "deepseek_v3"}, {"qwen2_moe", "qwen3_moe"},  {"qwen2_audio", "qwen2"},      {"qwen3_asr", "qwen3"},
        {"granitemoehybrid", "granitemoe"}, {"internlm2", "llama"}, {"mistral_large4", "mistral"}, {"whisper", ""},
        {"bert", ""},              {"t5", ""},                   {"t5gemma", ""},               {"falcon", ""},
        {"mamba", ""},             {"rwkv", ""},                 {"gpt2", ""},                  {"cohere", ""},
        {"minimax", ""},           {"longformer", ""},           {"longcat_flash", ""},         {"nemotron_h", ""},
    };
    char config[100];
    for (size_t i = 0; i < SAC_COUNT(cases); i++) {
        snprintf(config, sizeof config, "{\"model_type\":\"%s\"}", cases[i][0]);
        nearest_is(config, cases[i][1]);
    }
}

/* Names that nobody knows: what stands on the same language model. */
static void by_its_language_model(void **state) {
    (void)state;
    nearest_is("{\"model_type\":\"new_one\",\"vision_config\":{},\"text_config\":{\"model_type\":\"qwen3\"}}", "qwen3_vl");
    nearest_is("{\"model_type\":\"new_one\",\"vision_config\":{},\"llm_config\":{\"model_type\":\"granite\"}}", "llava_next");
    nearest_is("{\"model_type\":\"new_one\",\"vision_config\":{},\"text_config\":{\"model_type\":\"qwen3_moe\"}}", "qwen3_vl_moe");
    nearest_is("{\"model_type\":\"new_one\",\"vision_config\":{},\"text_config\":{\"model_type\":\"bart\"}}", "");
    nearest_is("{\"model_type\":\"new_one\",\"text_config\":7}", "");
    nearest_is("{\"architectures\":[\"NewOne\"]}", "");
}

static void long_names(void **state) {
    (void)state;
    char config[600] = "{\"model_type\":\"", nearest[40];
    const size_t n = strlen(config);
    memset(config + n, 'z', 400);
    strcpy(config + n + 400, "\"}");
    nearest_is(config, "");
    memcpy(config + n, "llava_", 6);
    nearest_is(config, "llava");
    assert_ok(sac_family_near_gguf(nearest, "", &err), err);
    assert_string_equal(nearest, "");
}

static void gguf_names(void **state) {
    (void)state;
    static const char *const cases[][2] = {{"llama4", "llama"},  {"gemma3n", "gemma3"}, {"qwen2moe", "qwen2"}, {"glm-dsa", "glm4"}, {"phi2", "phi3"},
                                           {"deepseek", "deepseek2"}, {"falcon", ""},   {"mamba", ""},         {"minimax-m2", ""},  {"t5", ""}};
    char nearest[40];
    for (size_t i = 0; i < SAC_COUNT(cases); i++) {
        const sac_family *family;
        assert_ok(sac_family_near_gguf(nearest, cases[i][0], &err), err);
        if (strcmp(nearest, cases[i][1])) fail_msg("%s: \"%s\", not \"%s\"", cases[i][0], nearest, cases[i][1]);
        assert_int_equal(sac_family_of_gguf(&family, cases[i][0], &err), SAC_UNSUPPORTED);
        assert_non_null(strstr(err.text, nearest[0] ? nearest : "these are: llama, qwen2"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_that_see),       cmocka_unit_test(models_of_text_and_sound),
        cmocka_unit_test(by_its_language_model), cmocka_unit_test(long_names),
        cmocka_unit_test(gguf_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
