/* Ids against transformers' AutoTokenizer for the files around a tokenizer.json
 * (tools/make_tokenizer_config_goldens.py). Another file of the same kind may be named as the argument. */
#include "file_map.h"
#include "json.h"
#include "tokenizer_data.h"

static const char *golden_path = TOKENIZER_GOLDENS "configs.json";

static sac_text_span text_of(const json_t *files, const char *name) {
    const json_t *v = json_object_get(files, name);
    return (sac_text_span){json_string_value(v), json_string_length(v)};
}

static sac_tokenizer *open_case(const json_t *c, sac_tokenizer_rule rule) {
    char path[400], *text;
    size_t n_bytes;
    sac_error err = {0};
    sac_tokenizer *t;
    const json_t *files = json_object_get(c, "files");
    snprintf(path, sizeof path, TOKENIZER_GOLDENS "%s.json",
             json_string_value(json_object_get(c, "tokenizer")));
    assert_ok(sac_file_read(&text, &n_bytes, path, (size_t)64 << 20, &err), err);
    assert_ok(sac_tokenizer_open_files(
                  &t,
                  &(sac_tokenizer_files){.tokenizer = {text, n_bytes},
                                         .tokenizer_config = text_of(files, "tokenizer_config.json"),
                                         .special_tokens_map = text_of(files, "special_tokens_map.json"),
                                         .added_tokens = text_of(files, "added_tokens.json"),
                                         .model_config = text_of(files, "config.json"),
                                         .rule = rule},
                  &err),
              err);
    free(text);
    return t;
}

static bool same_ids(const int32_t *got, size_t n, const json_t *want) {
    bool same = json_array_size(want) == n;
    for (size_t i = 0; same && i < n; i++) same = json_integer_value(json_array_get(want, i)) == got[i];
    return same;
}

static int differ(size_t at, const json_t *c, const char *what, const char *text, const int32_t *got,
                  size_t n, const json_t *want) {
    char *w = json_dumps(want, JSON_COMPACT | JSON_ENCODE_ANY), *f = json_dumps(c, JSON_COMPACT);
    f[strcspn(f, "[")] = 0;
    fprintf(stderr, "case %zu (%.400s) %s \"%s\"\n  want %s\n  got ", at, f, what, text, w);
    for (size_t i = 0; i < n; i++) fprintf(stderr, "%d ", (int)got[i]);
    fprintf(stderr, "\n");
    free(w);
    free(f);
    return 1;
}

static int compare(const sac_tokenizer *t, const json_t *c, const json_t *strings, size_t at) {
    int bad = 0;
    for (size_t i = 0; i < json_array_size(strings); i++) {
        const char *text = json_string_value(json_array_get(strings, i));
        const json_t *ids = json_array_get(json_object_get(c, "ids"), i),
                     *added = json_array_get(json_object_get(c, "added"), i);
        int32_t got[MAX_IDS];
        char back[4096];
        size_t n = ids_of(t, text, strlen(text), true, true, got), n_bytes;
        if (json_is_null(added)) added = ids;
        if (!same_ids(got, n, added)) bad += differ(at, c, "with what is added:", text, got, n, added);
        n = ids_of(t, text, strlen(text), true, false, got);
        if (!same_ids(got, n, ids)) bad += differ(at, c, "alone:", text, got, n, ids);
        const char *want = json_string_value(json_array_get(json_object_get(c, "text"), i));
        sac_error err = {0};
        assert_ok(sac_detokenize(t, got, n, true, back, sizeof back, &n_bytes, &err), err);
        if (n_bytes != strlen(want) || memcmp(back, want, n_bytes) != 0) {
            fprintf(stderr, "case %zu: \"%s\" came back as \"%.*s\", not \"%s\"\n", at, text, (int)n_bytes,
                    back, want);
            bad++;
        }
    }
    return bad;
}

static int32_t id_of(const json_t *c, const char *key) {
    const json_t *v = json_object_get(c, key);
    return json_is_integer(v) ? (int32_t)json_integer_value(v) : -1;
}

static void test_transformers(void **state) {
    (void)state;
    json_t *golden;
    sac_error err = {0};
    int bad = 0;
    assert_ok(sac_json_parse_file(&golden, golden_path, &err), err);
    const json_t *cases = json_object_get(golden, "cases");
    assert_true(json_array_size(cases) >= 200);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i), *like = json_object_get(c, "like");
        const json_t *answers = like ? json_array_get(cases, (size_t)json_integer_value(like)) : c;
        sac_tokenizer *t = open_case(c, SAC_TOKENIZER_BY_CLASS);
        int n = compare(t, answers, json_object_get(golden, "strings"), i);
        int32_t eos = id_of(answers, "eos"), bos = id_of(answers, "bos");
        if (sac_tokenizer_eos(t) != eos || (bos >= 0 && sac_tokenizer_bos(t) != bos)) {
            fprintf(stderr, "case %zu: begin %d end %d, want %d and %d\n", i, (int)sac_tokenizer_bos(t),
                    (int)sac_tokenizer_eos(t), (int)bos, (int)eos);
            n++;
        }
        bad += n > 0;
        sac_tokenizer_free(t);
    }
    print_message("%zu cases, %d differ\n", json_array_size(cases), bad);
    json_decref(golden);
    assert_int_equal(bad, 0);
}

/* As the file has it, whatever the class: the ids of `tokenizers`. */
static void test_by_file(void **state) {
    (void)state;
    static const char *const models[] = {"llama", "qwen2"};
    json_t *golden;
    sac_error err = {0};
    assert_ok(sac_json_parse_file(&golden, TOKENIZER_GOLDENS "cases.json", &err), err);
    const json_t *strings = json_object_get(golden, "strings");
    const json_t *want =
        json_object_get(json_object_get(json_object_get(golden, "tokenizers"), "sentencepiece"), "ids");
    for (size_t k = 0; k < SAC_COUNT(models); k++) {
        int n_differ = 0;
        json_t *c = json_pack("{s:s, s:{s:s, s:o}}", "tokenizer", "sentencepiece", "files",
                              "tokenizer_config.json", "{\"tokenizer_class\": \"LlamaTokenizer\"}",
                              "config.json", json_sprintf("{\"model_type\": \"%s\"}", models[k]));
        sac_tokenizer *by_file = open_case(c, SAC_TOKENIZER_BY_FILE),
                      *by_class = open_case(c, SAC_TOKENIZER_BY_CLASS);
        assert_string_equal(sac_tokenizer_kind(by_file), "tokenizer.json");
        assert_string_equal(sac_tokenizer_kind(by_class), k ? "Qwen2Tokenizer" : "LlamaTokenizer");
        for (size_t i = 0; i < json_array_size(strings); i++) {
            const char *text = json_string_value(json_array_get(strings, i));
            int32_t got[MAX_IDS];
            assert_true(same_ids(got, ids_of(by_file, text, strlen(text), true, false, got),
                                 json_array_get(want, i)));
            n_differ += !same_ids(got, ids_of(by_class, text, strlen(text), true, false, got),
                                  json_array_get(want, i));
        }
        assert_true(n_differ > 0);
        assert_null(sac_tokenizer_unknown_class(by_class));
        sac_tokenizer_free(by_file);
        sac_tokenizer_free(by_class);
        json_decref(c);
    }
    json_decref(golden);
}

static void test_unknown_class(void **state) {
    (void)state;
    static const struct {
        const char *config, *model, *unknown;
    } cases[] = {{"{\"tokenizer_class\": \"CodeLlamaTokenizerFast\"}", "{\"model_type\": \"llama\"}",
                  "CodeLlamaTokenizerFast"},
                 {"{\"tokenizer_class\": \"CodeLlamaTokenizer\"}", "{\"model_type\": \"llava\"}", NULL},
                 {"{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}", "{\"model_type\": \"llama\"}", NULL}};
    for (size_t i = 0; i < SAC_COUNT(cases); i++) {
        json_t *c = json_pack("{s:s, s:{s:s, s:s}}", "tokenizer", "sentencepiece", "files",
                              "tokenizer_config.json", cases[i].config, "config.json", cases[i].model);
        sac_tokenizer *t = open_case(c, SAC_TOKENIZER_BY_CLASS);
        assert_string_equal(sac_tokenizer_kind(t), "tokenizer.json");
        const char *unknown = sac_tokenizer_unknown_class(t);
        assert_true(cases[i].unknown ? unknown && !strcmp(unknown, cases[i].unknown) : !unknown);
        sac_tokenizer_free(t);
        json_decref(c);
    }
}

/* A line that names file and key. */
static void test_refused(void **state) {
    (void)state;
    static const char bpe[] = "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}",
                      unigram[] = "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",0]]}}";
    static const struct {
        const char *tokenizer, *config, *map, *added, *model;
        const char *says[2];
        sac_status status;
    } bad[] = {
        {bpe, "[]", NULL, NULL, NULL, {"tokenizer_config.json", "object"}, SAC_BAD_FILE},
        {bpe, "{\"tokenizer_class\":1}", NULL, NULL, NULL, {"tokenizer_class", "string"}, SAC_BAD_FILE},
        {bpe,
         "{\"split_special_tokens\":1}",
         NULL,
         NULL,
         NULL,
         {"split_special_tokens", "true"},
         SAC_BAD_FILE},
        {bpe,
         "{\"added_tokens_decoder\":{\"x\":{}}}",
         NULL,
         NULL,
         NULL,
         {"added_tokens_decoder", "\"x\""},
         SAC_BAD_FILE},
        {bpe,
         "{\"added_tokens_decoder\":{\"7\":{}}}",
         NULL,
         NULL,
         NULL,
         {"decoder[7]", "content"},
         SAC_BAD_FILE},
        {bpe, "{\"eos_token\":3}", NULL, NULL, NULL, {"tokenizer_config.json", "eos_token"}, SAC_BAD_FILE},
        {bpe,
         "{\"extra_special_tokens\":3}",
         NULL,
         NULL,
         NULL,
         {"tokenizer_config.json", "extra_special"},
         SAC_BAD_FILE},
        {bpe, NULL, "{\"pad_token\":[]}", NULL, NULL, {"special_tokens_map.json", "pad_token"}, SAC_BAD_FILE},
        {bpe, NULL, NULL, "{\"<x>\":\"7\"}", NULL, {"added_tokens.json", "<x>"}, SAC_BAD_FILE},
        {bpe, NULL, NULL, "{", NULL, {"added_tokens.json", "JSON"}, SAC_BAD_FILE},
        {bpe, NULL, NULL, NULL, "{\"model_type\":7}", {"config.json", "model_type"}, SAC_BAD_FILE},
        {unigram,
         "{\"tokenizer_class\":\"LlamaTokenizer\"}",
         NULL,
         NULL,
         NULL,
         {"LlamaTokenizer", "--tokenizer file"},
         SAC_UNSUPPORTED},
    };
#define SPAN(text)                                                                                           \
    { text, (text) ? strlen(text) : 0 }
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        sac_tokenizer *t;
        sac_error err = {0};
        const sac_tokenizer_files files = {.tokenizer = SPAN(bad[i].tokenizer),
                                           .tokenizer_config = SPAN(bad[i].config),
                                           .special_tokens_map = SPAN(bad[i].map),
                                           .added_tokens = SPAN(bad[i].added),
                                           .model_config = SPAN(bad[i].model)};
        assert_int_equal(sac_tokenizer_open_files(&t, &files, &err), bad[i].status);
        for (int k = 0; k < 2; k++)
            if (!strstr(err.text, bad[i].says[k]))
                fail_msg("\"%s\" does not say %s", err.text, bad[i].says[k]);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) golden_path = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_transformers), cmocka_unit_test(test_by_file),
                                       cmocka_unit_test(test_unknown_class), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests_name("tokenizer_configs", tests, NULL, NULL);
}
