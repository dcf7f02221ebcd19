/* tokenizer.json, tokenizer_config.json and GGUF vocabularies of strangers: every fault is one line. */
#include "file_map.h"
#include "tokenizer_data.h"

static sac_status open_text(const char *text, size_t n_bytes, sac_error *err) {
    sac_tokenizer *t = NULL;
    char *copy =
        malloc(n_bytes ? n_bytes : 1); /* exactly as long as it is, so that reading past it is noticed */
    assert_non_null(copy);
    memcpy(copy, text, n_bytes);
    sac_status st = sac_tokenizer_open_json(&t, copy, n_bytes, NULL, 0, err);
    free(copy);
    assert_true((st == SAC_OK) == (t != NULL));
    if (t) {
        int32_t ids[64];
        size_t n;
        sac_text_segment s = SPECIAL("ab c<x>\xf0\x9f\x98\x80 12");
        sac_tokenize(t, &s, 1, true, ids, 64, &n, err);
    }
    sac_tokenizer_free(t);
    return st;
}

static void test_cut_files(void **state) {
    (void)state;
    static const char *const names[] = {"odd_added", "unigram_charsmap", "split_next"};
    for (size_t i = 0; i < SAC_COUNT(names); i++) {
        char path[200], *text;
        size_t n_bytes;
        snprintf(path, sizeof path, TOKENIZER_GOLDENS "%s.json", names[i]);
        sac_error err = {0};
        assert_ok(sac_file_read(&text, &n_bytes, path, 1 << 20, &err), err);
        while (text[n_bytes - 1] == '\n') n_bytes--;
        assert_ok(open_text(text, n_bytes, &err), err);
        for (size_t cut = 0; cut < n_bytes; cut++) {
            memset(&err, 0, sizeof err);
            assert_int_equal(open_text(text, cut, &err), SAC_BAD_FILE);
            assert_true(err.text[0] && !strchr(err.text, '\n'));
        }
        free(text);
    }
}

typedef struct bad_file {
    const char *text, *says;
} bad_file;

#define MODEL(more)                                                                                          \
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3},\"merges\":[\"a b\"]}" more "}"
#define VOCAB(v, m) "{\"model\":{\"type\":\"BPE\",\"vocab\":" v ",\"merges\":" m "}}"

static void test_bad_files(void **state) {
    (void)state;
    static const bad_file bad[] = {
        {"", "byte 0"},
        {"[]", "expected an object"},
        {"{}", "no \"model\""},
        {"{\"model\":{}}", "no \"model\""},
        {"{\"model\":{\"vocab\":3}}", "expected an object"},
        {"{\"model\":{\"vocab\":{\"a\":0}}}", "merges is missing"},
        {VOCAB("{\"a\":-1}", "[]"), "id -1"},
        {VOCAB("{\"a\":2000000000}", "[]"), "not between"},
        {VOCAB("{\"a\":99999999999999999999}", "[]"), "out of range"},
        {VOCAB("{\"a\":1.5}", "[]"), "integer"},
        {VOCAB("{\"a\":\"0\"}", "[]"), "integer"},
        {VOCAB("{\"\":0}", "[]"), "text of 0 bytes"},
        {VOCAB("{\"a\":0,\"b\":0}", "[]"), "two tokens"},
        {VOCAB("{\"a\":0,\"a\":1}", "[]"), "two ids"},
        {VOCAB("{\"a\":0}", "[\"a b\"]"), "\"b\", which is not in the vocabulary"},
        {VOCAB("{\"a\":0,\"b\":1}", "[\"a b\"]"), "\"ab\", which"},
        {VOCAB("{\"a\":0}", "[\"a\"]"), "space between"},
        {VOCAB("{\"a\":0}", "[\"a a a\"]"), "space between"},
        {VOCAB("{\"a\":0}", "[\" a\"]"), "not two tokens"},
        {VOCAB("{\"a\":0}", "[[\"a\"]]"), "not a pair"},
        {VOCAB("{\"a\":0}", "[[\"a\",\"a\",\"a\"]]"), "not a pair"},
        {VOCAB("{\"a\":0}", "[[\"a\",\"\"]]"), "not two tokens"},
        {VOCAB("{\"a\":0}", "[3]"), "expected a string"},
        {VOCAB("{\"a\":0}", "{}"), "expected an array"},
        {VOCAB("{\"\xff\":0}", "[]"), "UTF-8"},
        {VOCAB("{\"\\ud800\":0}", "[]"), "escape"},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0},\"merges\":[]}}", "WordPiece"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":{\"a\":0},\"merges\":[]}}", "Unigram"},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":4,\"vocab\":[[\"a\",0]]}}", "unk_id"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",1e999]]}}", "number"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}", "no score"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0,0]]}}", "[text, score]"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"dropout\":0.1}}", "dropout"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"end_of_word_suffix\":\"</w>\"}}",
         "end_of_word_suffix"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"byte_fallback\":1}}", "byte_fallback"},
        {MODEL(",\"model\":{}"), "twice"},
        {MODEL(",\"normalizer\":{\"type\":\"Lowercase\"}"), "Lowercase"},
        {MODEL(",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":3}"), "must be an array"},
        {MODEL(",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{},\"content\":\"x\"}"),
         "String or a Regex"},
        {MODEL(",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAA\"}"), "base64"},
        {MODEL(",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"////fwAA\"}"), "trie"},
        {MODEL(",\"normalizer\":7"), "must be an object"},
        {MODEL(",\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}"), "BertPreTokenizer"},
        {MODEL(",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":"
               "\"Isolated\"}"),
         "regular expression"},
        {MODEL(",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a(?R)\"},\"behavior\":"
               "\"Isolated\"}"),
         "(?R)"},
        {MODEL(",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&b]\"},\"behavior\":"
               "\"Isolated\"}"),
         "&&"},
        {MODEL(",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\K\"},\"behavior\":"
               "\"Isolated\"}"),
         "\\K"},
        {MODEL(",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"\"},\"behavior\":"
               "\"Isolated\"}"),
         "pattern of 0"},
        {MODEL(",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Odd\"}"),
         "Odd"},
        {MODEL(",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"ab\"}"), "one character"},
        {MODEL(",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"prepend_scheme\":\"odd\"}"), "odd"},
        {MODEL(",\"post_processor\":{\"type\":\"RobertaProcessing\"}"), "RobertaProcessing"},
        {MODEL(",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[]}"), "leaves the text out"},
        {MODEL(",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":"
               "\"q\"}}]}"),
         "\"q\""},
        {MODEL(",\"decoder\":{\"type\":\"CTC\"}"), "CTC"},
        {MODEL(",\"decoder\":{\"type\":\"Strip\",\"content\":\"\",\"start\":1,\"stop\":0}"), "one character"},
        {MODEL(",\"added_tokens\":[{\"id\":-1,\"content\":\"x\"}]"), "added_tokens[0]"},
        {MODEL(",\"added_tokens\":[{\"id\":9}]"), "content"},
        {MODEL(",\"added_tokens\":[{\"id\":9,\"content\":\"x\"},{\"id\":10,\"content\":\"x\"}]"), "twice"},
        {MODEL(",\"added_tokens\":{}"), "array"},
        {MODEL("") "x", "after the end"},
    };
    sac_error err = {0};
    assert_ok(open_text(MODEL(""), strlen(MODEL("")), &err), err);
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        memset(&err, 0, sizeof err);
        sac_status st = open_text(bad[i].text, strlen(bad[i].text), &err);
        if (st != SAC_BAD_FILE || !strstr(err.text, bad[i].says))
            fail_msg("%s: %s, \"%s\" does not say \"%s\"", bad[i].text, sac_status_name(st), err.text,
                     bad[i].says);
    }
}

static void test_deep_and_slow(void **state) {
    (void)state;
    static const char *const open[] = {"[", "{\"a\":", "{\"model\":{\"vocab\":{},\"x\":["};
    sac_error err = {0};
    for (size_t i = 0; i < SAC_COUNT(open); i++) { /* nesting without end */
        size_t n = strlen(open[i]), times = 20000;
        char *text = malloc(n * times);
        assert_non_null(text);
        for (size_t k = 0; k < times; k++) memcpy(text + k * n, open[i], n);
        assert_int_equal(open_text(text, n * times, &err), SAC_BAD_FILE);
        free(text);
    }
    /* a pattern that backtracks without end stops with an error */
    static const char slow[] = MODEL(",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?:a+)+"
                                     "[bc]\"},\"behavior\":\"Isolated\"}");
    sac_tokenizer *t;
    assert_ok(sac_tokenizer_open_json(&t, slow, strlen(slow), NULL, 0, &err), err);
    char text[2000];
    memset(text, 'a', sizeof text);
    sac_text_segment s = {.text = text, .n_bytes = sizeof text};
    size_t n;
    assert_int_equal(sac_tokenize(t, &s, 1, false, NULL, 0, &n, &err), SAC_BAD_FILE);
    assert_non_null(strstr(err.text, "regular expression"));
    sac_tokenizer_free(t);
}

static void test_config(void **state) {
    (void)state;
    /* model_max_length beyond 2^63 is in real files */
    static const char config[] =
        "{\"model_max_length\":1000000000000000019884624838656,\"bos_token\":{\"content\":\"a\"},"
        "\"eos_token\":\"\\u0061b\",\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"x\"},"
        "{\"name\":\"default\",\"template\":\"{{ \\\"hi\\\" }}\"}]}";
    sac_tokenizer *t;
    sac_error err = {0};
    assert_ok(sac_tokenizer_open_json(&t, MODEL(""), strlen(MODEL("")), config, strlen(config), &err), err);
    assert_int_equal(sac_tokenizer_bos(t), 0);
    assert_int_equal(sac_tokenizer_eos(t), 3);
    assert_string_equal(sac_tokenizer_chat_template(t), "{{ \"hi\" }}");
    sac_tokenizer_free(t);
    for (size_t cut = 0; cut < strlen(config); cut++)
        assert_int_equal(sac_tokenizer_open_json(&t, MODEL(""), strlen(MODEL("")), config, cut, &err),
                         SAC_BAD_FILE);
}

/* ---- GGUF's arrays ---- */

static void test_vocab_source(void **state) {
    (void)state;
    sac_text_span tokens[] = {{"<unk>", 5}, {"<s>", 3}, {"<0x41>", 6},       {"a", 1},
                              {"b", 1},     {"ab", 2},  {"\xe2\x96\x81", 3}, {"abab", 4}};
    float scores[] = {0, 0, 0, -5, -6, -1, -4, -2};
    int32_t types[] = {2, 3, 6, 1, 1, 1, 1, 1}, ids[16];
    sac_vocab_source src = {.model = "llama",
                            .n_tokens = SAC_COUNT(tokens),
                            .tokens = tokens,
                            .scores = scores,
                            .types = types,
                            .bos_id = 1,
                            .eos_id = -1,
                            .unk_id = 0,
                            .add_bos = -1,
                            .add_eos = -1,
                            .add_space_prefix = -1};
    sac_tokenizer *t;
    sac_error err = {0};
    assert_ok(sac_tokenizer_open_vocab(&t, &src, &err), err);
    const int32_t want[] = {1, 6, 7, 2, 0};
    assert_int_equal(ids_of(t, "ababA?", 6, true, true, ids), 5);
    assert_memory_equal(ids, want, sizeof want);
    sac_tokenizer_free(t);
    const struct {
        sac_vocab_source src;
        sac_status status;
    } bad[] = {
        {{.model = "bert"}, SAC_UNSUPPORTED},
        {{.model = "gpt2", .pre = "no such split"}, SAC_UNSUPPORTED},
        {{.model = "llama", .n_tokens = 8, .tokens = tokens, .types = types, .bos_id = -1}, SAC_BAD_FILE},
        {{.model = "llama", .n_tokens = 8, .tokens = tokens, .scores = scores, .bos_id = 8}, SAC_BAD_FILE},
        {{.model = "gpt2", .n_tokens = 0}, SAC_BAD_FILE},
        {{.model = "gpt2", .n_tokens = 8, .tokens = tokens, .n_merges = 1, .merges = tokens}, SAC_BAD_FILE}};
    for (size_t i = 0; i < SAC_COUNT(bad); i++)
        assert_int_equal(sac_tokenizer_open_vocab(&t, &bad[i].src, &err), bad[i].status);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_files),     cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_deep_and_slow), cmocka_unit_test(test_config),
        cmocka_unit_test(test_vocab_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
