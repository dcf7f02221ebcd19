/* Every key of transformers' configuration classes, with a changed value, is honoured, refused by its name or listed as
 * without effect: tests/golden/config_keys.json, made by tools/make_config_keys.py. Keys that nobody has are told. */
#include "test.h"

#include "config_keys.h"

static sac_error err;

static json_t *load(const char *path) {
    json_t *v;
    assert_ok(sac_json_parse_file(&v, path, &err), err);
    return v;
}

static sac_key_use use_of(const sac_config_keys *keys, const char *name) {
    for (int i = 0; i < keys->n; i++)
        if (strcmp(keys->item[i].name, name) == 0) return keys->item[i].use;
    fail_msg("%s is not listed", name);
    return SAC_KEY_UNKNOWN;
}

/* Another value of the same type, which no default is. */
static json_t *changed(const json_t *v) {
    if (json_is_boolean(v)) return json_boolean(!json_is_true(v));
    if (json_is_integer(v)) return json_integer(json_integer_value(v) + 1);
    if (json_is_real(v)) return json_real(json_real_value(v) * 2 + 1);
    if (json_is_array(v)) return json_pack("[i]", 7);
    if (json_is_object(v)) return json_pack("{s:i}", "rope_theta", 7);
    return json_string("other");
}

/* The config with one key in its place. */
static json_t *config_with(const char *whole, const char *model_type, const char *half, const char *key,
                           json_t *value) {
    json_t *config = json_pack("{s:s, s:o}", "model_type", model_type, key, value);
    if (!half) return config;
    return json_pack("{s:s, s:o}", "model_type", whole, half, config);
}

/* `half` NULL: in the whole's config itself. */
static void check_in(const char *whole, const char *model_type, const char *half, const char *key,
                     json_t *value) {
    const sac_family *family = sac_family_find(sac_families, whole);
    assert_non_null(family);
    json_t *config = config_with(whole, model_type, half, key, value);
    char name[200];
    snprintf(name, sizeof name, "%s%s%s", half ? half : "", half ? "." : "", key);
    sac_config_keys keys = {0};
    sac_status st = sac_config_keys_of_config(&keys, family, config, &err);
    if (st == SAC_UNSUPPORTED) {
        if (!strstr(err.text, key))
            fail_msg("%s of %s: the refusal does not name it: %s", name, model_type, err.text);
    } else {
        assert_ok(st, err);
        if (use_of(&keys, name) == SAC_KEY_UNKNOWN) fail_msg("%s of %s is passed over", name, model_type);
    }
    sac_config_keys_free(&keys);
    json_decref(config);
}

static void check(const char *model_type, const char *half, const char *key, json_t *value) {
    check_in(half ? "llava" : model_type, model_type, half, key, value);
}

static void every_key_of_transformers_is_known(void **state) {
    (void)state;
    json_t *golden = load("tests/golden/config_keys.json"), *classes = json_object_get(golden, "config"),
           *keys, *v;
    const char *class, *key;
    int n = 0;
    json_object_foreach(classes, class, keys) {
        const char *tower = !strcmp(class, "clip")     ? "clip_vision_model"
                            : !strcmp(class, "siglip") ? "siglip_vision_model"
                            : !strcmp(class, "pixtral") ? "pixtral"
                                                       : NULL;
        bool whole = strncmp(class, "llava", 5) == 0 || !strcmp(class, "mistral3") || strstr(class, "vl") || !strncmp(class, "gemma", 5) ||
                     !strncmp(class, "glm", 3) || !strcmp(class, "lighton_ocr") || !strncmp(class, "minicpm", 7);
        json_object_foreach(keys, key, v) {
            if (!strcmp(key, "model_type") || !strcmp(key, "text_config") || !strcmp(key, "vision_config"))
                continue;
            if (tower)
                check(tower, "vision_config", key, changed(v));
            else {
                check(class, NULL, key, changed(v));
                if (!whole) check(class, "text_config", key, changed(v));
            }
            n++;
        }
    }
    assert_true(n > 150);
    json_decref(golden);
}

/* Those of families whose halves have classes of their own. */
static void every_key_of_halves_is_known(void **state) {
    (void)state;
    json_t *golden = load("tests/golden/config_keys.json"), *halves, *keys, *v;
    const char *family, *half, *key;
    int n = 0;
    json_object_foreach(json_object_get(golden, "half"), family, halves) {
        json_object_foreach(halves, half, keys) {
            const char *type = json_string_value(json_object_get(keys, "model_type"));
            json_object_foreach(keys, key, v) {
                if (strcmp(key, "model_type") != 0) check_in(family, type, half, key, changed(v)), n++;
            }
        }
    }
    assert_true(n > 100);
    json_decref(golden);
}

static void every_key_of_rope_is_known(void **state) {
    (void)state;
    json_t *golden = load("tests/golden/config_keys.json"), *v;
    static const char *const places[] = {"rope_scaling", "rope_parameters"};
    const char *key;
    json_object_foreach(json_object_get(golden, "rope"), key, v) for (size_t i = 0; i < SAC_COUNT(places);
                                                                      i++)
        check("llama", NULL, places[i], json_pack("{s:i}", key, 1));
    json_decref(golden);
}

static void every_key_of_processors_is_known(void **state) {
    (void)state;
    json_t *golden = load("tests/golden/config_keys.json"), *keys, *v;
    const char *class, *key;
    json_object_foreach(json_object_get(golden, "preprocessor"), class, keys) {
        json_object_foreach(keys, key, v) {
            sac_config_keys found = {0};
            json_t *object = json_pack("{s:o}", key, changed(v));
            const char *name = strcmp(class, "clip") == 0 || strcmp(class, "siglip") == 0 ? "llava" : class;
            sac_status st =
                sac_config_keys_of_object(&found, sac_family_find(sac_families, name), "preprocessor",
                                          "preprocessor_config.json", object, &err);
            if (st == SAC_OK && use_of(&found, key) == SAC_KEY_UNKNOWN)
                fail_msg("%s of %s is passed over", key, class);
            if (st != SAC_OK && !strstr(err.text, key)) fail_msg("%s: %s", key, err.text);
            sac_config_keys_free(&found);
            json_decref(object);
        }
    }
    json_decref(golden);
}

static sac_config_keys keys_of(const char *family, const char *text) {
    json_t *config;
    sac_config_keys keys = {0};
    assert_ok(sac_json_parse(&config, text, strlen(text), &err), err);
    assert_ok(sac_config_keys_of_config(&keys, sac_family_find(sac_families, family), config, &err), err);
    json_decref(config);
    return keys;
}

static void unknown_keys_are_told(void **state) {
    (void)state;
    sac_config_keys k = keys_of(
        "llava", "{\"frobnicate\": 1, \"nothing\": null, \"text_config\": {\"model_type\": \"qwen2\","
                 "\"max_window_layers\": 3, \"frob\": [], \"top_k\": 3, \"rope_scaling\": {\"frob\": 1}},"
                 "\"vision_config\": {\"frob\": 1, \"dtype\": \"f\", \"top_k\": 3, \"hidden_size\": 8}}");
    assert_int_equal(use_of(&k, "frobnicate"), SAC_KEY_UNKNOWN);
    for (int i = 0; i < k.n; i++) assert_string_not_equal(k.item[i].name, "nothing");
    assert_int_equal(use_of(&k, "text_config.max_window_layers"), SAC_KEY_HONOURED);
    assert_int_equal(use_of(&k, "text_config.frob"), SAC_KEY_UNKNOWN);
    assert_int_equal(use_of(&k, "text_config.top_k"), SAC_KEY_HONOURED);
    assert_int_equal(use_of(&k, "text_config.rope_scaling.frob"), SAC_KEY_UNKNOWN);
    assert_int_equal(use_of(&k, "vision_config.frob"), SAC_KEY_UNKNOWN);
    assert_int_equal(use_of(&k, "vision_config.dtype"), SAC_KEY_NO_EFFECT);
    assert_int_equal(use_of(&k, "vision_config.top_k"), SAC_KEY_NO_EFFECT);
    assert_int_equal(use_of(&k, "vision_config.hidden_size"), SAC_KEY_HONOURED);
    sac_config_keys_free(&k);
    k = keys_of("llama", "{\"max_window_layers\": 3}"); /* another family's */
    assert_int_equal(use_of(&k, "max_window_layers"), SAC_KEY_UNKNOWN);
    sac_config_keys_free(&k);
    k = keys_of("longva",
                "{\"max_window_layers\": 3, \"mm_patch_merge_type\": \"unires\"}"); /* both in one object */
    assert_int_equal(use_of(&k, "max_window_layers"), SAC_KEY_HONOURED);
    assert_int_equal(use_of(&k, "mm_patch_merge_type"), SAC_KEY_HONOURED);
    sac_config_keys_free(&k);
}

static void other_values_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *family, *text, *want;
    } cases[] = {
        {"llama", "{\"mlp_bias\": true}", "\"mlp_bias\" is true; only false is supported"},
        {"llava", "{\"vision_config\": {\"num_channels\": 1}}",
         "vision_config: \"num_channels\" is 1; only 3 is supported"},
        {"llava", "{\"text_config\": {\"is_causal\": \"true\"}}", ""},
        {"longva", "{\"mm_resampler_type\": \"qformer\"}", "\"mm_resampler_type\" is \"qformer\""},
        {"qwen2", "{\"use_mrope\": true}", "\"use_mrope\" is true"},
        {"qwen2", "{\"rope_scaling\": {\"partial_rotary_factor\": 0.5}}", "\"partial_rotary_factor\" is 0.5"},
        {"mistral", "{\"pruned_heads\": {\"1\": [0]}}", "\"pruned_heads\" is an object"},
    };
    for (size_t i = 0; i < SAC_COUNT(cases); i++) {
        json_t *config;
        sac_config_keys keys = {0};
        assert_ok(sac_json_parse(&config, cases[i].text, strlen(cases[i].text), &err), err);
        err = (sac_error){0};
        sac_status st =
            sac_config_keys_of_config(&keys, sac_family_find(sac_families, cases[i].family), config, &err);
        if ((st == SAC_UNSUPPORTED) != (cases[i].want[0] != 0) || !strstr(err.text, cases[i].want))
            fail_msg("%s gave %d, \"%s\"", cases[i].text, st, err.text);
        sac_config_keys_free(&keys);
        json_decref(config);
    }
}

static void a_vision_half_in_gguf_says_what_to_give(void **state) {
    (void)state;
    const sac_family *family;
    assert_int_equal(sac_family_of_gguf(&family, "clip", &err), SAC_UNSUPPORTED);
    if (!strstr(err.text, "give the language model, and this file with --mmproj"))
        fail_msg("%s", err.text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_of_transformers_is_known),
        cmocka_unit_test(every_key_of_halves_is_known),
        cmocka_unit_test(every_key_of_rope_is_known),
        cmocka_unit_test(every_key_of_processors_is_known),
        cmocka_unit_test(unknown_keys_are_told),
        cmocka_unit_test(other_values_are_refused_by_name),
        cmocka_unit_test(a_vision_half_in_gguf_says_what_to_give),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
