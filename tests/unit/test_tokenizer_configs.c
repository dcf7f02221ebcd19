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
    char path[200], *text;
    size_t n_bytes;
    sac_error err = {0};
    sac_tokenizer *t;
    const json_t *files = json_object_get(c, "files");
    snprintf(path, sizeof path, TOKENIZER_GOLDENS "%s.json", json_string_value(json_object_get(c, "tokenizer")));
    assert_ok(sac_file_read(&text, &n_bytes, path, 1 << 20, &err), err);
    assert_ok(sac_tokenizer_open_files(&t,
                                       &(sac_tokenizer_files){.tokenizer = {text, n_bytes},
                                                              .tokenizer_config = text_of(files, "tokenizer_config.json"),
                                                              .special_tokens_map =
                                                                  text_of(files, "special_tokens_map.json"),
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

static int differ(size_t at, const json_t *c, const char *what, const char *text, const int32_t *got, size_t n,
                  const json_t *want) {
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
            fprintf(stderr, "case %zu: \"%s\" came back as \"%.*s\", not \"%s\"\n", at, text, (int)n_bytes, back, want);
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

int main(int argc, char **argv) {
    if (argc > 1) golden_path = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_transformers)};
    return cmocka_run_group_tests_name("tokenizer_configs", tests, NULL, NULL);
}
