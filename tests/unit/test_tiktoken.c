/* tiktoken.model: ids and texts against the package tiktoken (tools/make_tiktoken_golden.py), and damaged files. */
#include "json.h"
#include "tokenizer_data.h"

#define FOLDER TOKENIZER_GOLDENS "tiktoken/"

static const char config[] = "{\"tokenizer_class\": \"TikTokenTokenizer\"}";

static void test_ids(void **state) {
    (void)state;
    sac_tokenizer *t;
    json_t *golden;
    sac_error err = {0};
    assert_ok(sac_tokenizer_open_tiktoken_file(&t, FOLDER "tiktoken.model", FOLDER "tokenizer_config.json", &err), err);
    assert_ok(sac_json_parse_file(&golden, FOLDER "ids.json", &err), err);
    assert_true(json_array_size(golden) > 150);
    for (size_t i = 0; i < json_array_size(golden); i++) {
        const json_t *one = json_array_get(golden, i), *text = json_array_get(one, 0), *want = json_array_get(one, 1);
        int32_t ids[MAX_IDS];
        char back[16384];
        size_t n_back;
        const size_t n_bytes = json_string_length(text), n = ids_of(t, json_string_value(text), n_bytes, true, true, ids);
        bool same = n == json_array_size(want);
        for (size_t k = 0; k < n && same; k++) same = ids[k] == json_integer_value(json_array_get(want, k));
        if (!same) fail_msg("text %zu, \"%s\": other ids, %zu and %zu", i, json_string_value(text), n, json_array_size(want));
        assert_ok(sac_detokenize(t, ids, n, false, back, sizeof back, &n_back, &err), err);
        assert_int_equal(n_back, n_bytes);
        assert_memory_equal(back, json_string_value(text), n_bytes);
        assert_int_equal(stream(t, ids, n, false, back), n_bytes);
    }
    json_decref(golden);
    sac_tokenizer_free(t);
}

enum { MOST_TOKENS = 1024, MOST_CHARS = 64, CONTROLS = 256 };
typedef struct gguf_vocab {
    char merge[MOST_TOKENS][MOST_CHARS];
    sac_text_span tokens[MOST_TOKENS], merges[MOST_TOKENS];
    int32_t types[MOST_TOKENS];
    size_t n, n_merges;
} gguf_vocab;

/* Which two tokens the token is joined of, as GGUF's converters find out: the neighbours that make the token of the lowest rank
 * go together, again and again, as long as that is below its own. */
static void add_merge(const sac_tokenizer *t, gguf_vocab *v, int32_t id) {
    const sac_text_span s = sac_token_text(t, id);
    size_t at[MOST_CHARS], n = 0;
    assert_true(s.n_bytes + 2 < MOST_CHARS);
    for (size_t i = 0; i < s.n_bytes; i++)
        if (((unsigned char)s.text[i] & 0xc0) != 0x80) at[n++] = i;
    at[n] = s.n_bytes;
    while (n > 1) {
        int32_t lowest = id;
        size_t which = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            const int32_t rank = sac_token_find(t, s.text + at[i], at[i + 2] - at[i]);
            if (rank >= 0 && rank < lowest) lowest = rank, which = i;
        }
        if (lowest == id) break;
        memmove(at + which + 1, at + which + 2, (n - which - 1) * sizeof *at);
        n--;
    }
    if (n != 2) return; /* a byte, or a token that only whole pieces are */
    char *merge = v->merge[v->n_merges];
    memcpy(merge, s.text, at[1]);
    merge[at[1]] = ' ';
    memcpy(merge + at[1] + 1, s.text + at[1], s.n_bytes - at[1]);
    v->merges[v->n_merges++] = (sac_text_span){merge, s.n_bytes + 1};
}

/* The vocabulary as a GGUF file has it: byte-level texts, control tokens, and merges of the ranks. */
static void read_vocab(const sac_tokenizer *t, gguf_vocab *v) {
    for (sac_text_span s; v->n < MOST_TOKENS && (s = sac_token_text(t, (int32_t)v->n)).n_bytes; v->n++) v->tokens[v->n] = s;
    assert_true(v->n > CONTROLS && v->n < MOST_TOKENS);
    for (size_t i = 0; i < v->n; i++) v->types[i] = i < v->n - CONTROLS ? SAC_TOKEN_NORMAL : SAC_TOKEN_CONTROL;
    for (size_t i = 0; i < v->n - CONTROLS; i++) add_merge(t, v, (int32_t)i);
}

/* The same vocabulary in GGUF, whose split pattern is "kimi-k2". */
static void test_gguf(void **state) {
    static gguf_vocab v;
    (void)state;
    sac_tokenizer *t, *g;
    json_t *golden;
    sac_error err = {0};
    assert_ok(sac_tokenizer_open_tiktoken_file(&t, FOLDER "tiktoken.model", FOLDER "tokenizer_config.json", &err), err);
    assert_ok(sac_json_parse_file(&golden, FOLDER "ids.json", &err), err);
    read_vocab(t, &v);
    const sac_vocab_source src = {.model = "gpt2",
                                  .pre = "kimi-k2",
                                  .n_tokens = v.n,
                                  .tokens = v.tokens,
                                  .types = v.types,
                                  .n_merges = v.n_merges,
                                  .merges = v.merges,
                                  .bos_id = -1,
                                  .eos_id = -1,
                                  .unk_id = -1,
                                  .add_bos = 0,
                                  .add_eos = -1,
                                  .add_space_prefix = -1};
    assert_ok(sac_tokenizer_open_vocab(&g, &src, &err), err);
    for (size_t i = 0; i < json_array_size(golden); i++) {
        const json_t *one = json_array_get(golden, i), *text = json_array_get(one, 0), *want = json_array_get(one, 1);
        int32_t ids[MAX_IDS];
        const size_t n = ids_of(g, json_string_value(text), json_string_length(text), true, true, ids);
        bool same = n == json_array_size(want);
        for (size_t k = 0; k < n && same; k++) same = ids[k] == json_integer_value(json_array_get(want, k));
        if (!same) fail_msg("text %zu, \"%s\": other ids, %zu and %zu", i, json_string_value(text), n, json_array_size(want));
    }
    json_decref(golden);
    sac_tokenizer_free(g);
    sac_tokenizer_free(t);
}

/* Control tokens are none where a text may not have them. */
static void test_plain_text(void **state) {
    (void)state;
    sac_tokenizer *t;
    sac_error err = {0};
    int32_t ids[MAX_IDS];
    assert_ok(sac_tokenizer_open_tiktoken_file(&t, FOLDER "tiktoken.model", FOLDER "tokenizer_config.json", &err), err);
    assert_string_equal(sac_tokenizer_kind(t), "tiktoken.model");
    assert_int_equal(ids_of(t, "<|media_pad|>", 13, true, false, ids), 1);
    assert_true(ids_of(t, "<|media_pad|>", 13, false, false, ids) > 1);
    char *text = mixed_text(1 << 16);
    round_trip(t, "tiktoken", text);
    free(text);
    sac_tokenizer_free(t);
}

/* Words without an end, of each class and of both. */
static void test_long_words(void **state) {
    enum { N = 400000 };
    static const char *const letters[] = {"a", "A", "\xd7\x90", "\xd0\x94"};
    static int32_t ids[2 * N + 1];
    (void)state;
    sac_tokenizer *t;
    sac_error err = {0};
    char *text = malloc(2 * N + 2), *back = malloc(2 * N + 2);
    assert_true(text && back);
    assert_ok(sac_tokenizer_open_tiktoken_file(&t, FOLDER "tiktoken.model", FOLDER "tokenizer_config.json", &err), err);
    for (size_t k = 0; k < SAC_COUNT(letters); k++) {
        size_t n_bytes = 0, n, n_back;
        for (int i = 0; i < N; i++)
            for (const char *p = letters[k]; *p; p++) text[n_bytes++] = *p;
        text[n_bytes++] = 'a';
        const sac_text_segment s = {.text = text, .n_bytes = n_bytes};
        assert_ok(sac_tokenize(t, &s, 1, false, ids, SAC_COUNT(ids), &n, &err), err);
        assert_ok(sac_detokenize(t, ids, n, false, back, 2 * N + 2, &n_back, &err), err);
        assert_int_equal(n_back, n_bytes);
        assert_memory_equal(back, text, n_bytes);
    }
    free(text);
    free(back);
    sac_tokenizer_free(t);
}

/* All bytes, and `more` behind them. */
static sac_status open_bytes(const char *more, const char *json, sac_error *err) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char text[8192];
    size_t n = 0;
    for (int b = 0; b < 256; b++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%c%c== %d\n", digits[b >> 2], digits[(b & 3) << 4], b);
    n += (size_t)snprintf(text + n, sizeof text - n, "%s", more);
    sac_tokenizer *t = NULL;
    sac_status st = sac_tokenizer_open_tiktoken(&t, (sac_text_span){text, n}, (sac_text_span){json, json ? strlen(json) : 0}, err);
    assert_true((st == SAC_OK) == (t != NULL));
    sac_tokenizer_free(t);
    return st;
}

#define NAMED(id) "{\"tokenizer_class\": \"TikTokenTokenizer\", \"added_tokens_decoder\": {\"" id "\": {\"content\": \"<x>\"}}}"

static void test_damaged(void **state) {
    (void)state;
    static const struct {
        const char *more, *json, *message;
    } bad[] = {
        {"YWI=", config, "line 257: not a token and its rank"},
        {"YWI= ", config, "line 257: not a token and its rank"},
        {" 256", config, "line 257: the token is not base64"},
        {"?? 256", config, "line 257: the token is not base64"},
        {"YWI= x", config, "line 257: the rank is not a number"},
        {"YWI= -1", config, "line 257: the rank is not a number"},
        {"YWI= 99999999999999999999", config, "line 257: the rank is too large"},
        {"YWI= 255", config, "line 257"},
        {"YQ== 256", config, "two ids"},
        {"YWI= 300", config, "257 tokens with ranks up to 300"},
        {"", NULL, "\"tokenizer_class\" is \"not given\""},
        {"", "{\"tokenizer_class\": \"QWenTokenizer\"}", "\"tokenizer_class\" is \"QWenTokenizer\""},
        {"YWI= x", "{\"tokenizer_class\": \"QWenTokenizer\"}", "\"tokenizer_class\" is \"QWenTokenizer\""}, /* before the file */
        {"", NAMED("255"), "\"255\" is no control token, whose ids are 256 to 511"},
        {"", NAMED("512"), "\"512\" is no control token"},
        {"", NAMED("-1"), "\"-1\" is no control token"},
        {"", NAMED("0300"), "\"0300\" is no control token"},
        {"", NAMED("300x"), "\"300x\" is no control token"},
        {"", NAMED(""), "\"\" is no control token"},
        {"", "[]", "tokenizer_config.json: not a JSON object"},
        {"", "{", "tokenizer_config.json"},
        {"", "{\"tokenizer_class\": \"TikTokenTokenizer\", \"added_tokens_decoder\": {\"256\": 3}}", "256 must be an object"},
        {"", "{\"tokenizer_class\": \"TikTokenTokenizer\", \"added_tokens_decoder\": {\"256\": {\"content\": \"a\"}}}", "\"a\""},
        {"", "{\"tokenizer_class\": \"TikTokenTokenizer\", \"added_tokens_decoder\": {\"256\": {\"content\": \"\"}}}",
         "token 256 has a text of 0 bytes"},
    };
    sac_error err = {0};
    assert_ok(open_bytes("YWI= 256\r\n\n", config, &err), err);
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        err = (sac_error){0};
        assert_true(open_bytes(bad[i].more, bad[i].json, &err) != SAC_OK);
        if (!strstr(err.text, bad[i].message)) fail_msg("case %zu: \"%s\", not \"%s\"", i, err.text, bad[i].message);
        assert_null(strchr(err.text, '\n'));
    }
    for (int n_groups = 170; n_groups <= 171; n_groups++) /* 511, 512 and 513 bytes */
        for (int rest = 0; rest < 3; rest++) {
            char line[720] = "";
            const int n_bytes = 3 * n_groups + rest;
            for (int i = 0; i < n_groups; i++) strcat(line, "AAAA");
            strcat(line, rest == 0 ? " 256" : rest == 1 ? "AA== 256" : "AAA= 256");
            const sac_status st = open_bytes(line, config, &err);
            assert_int_equal(st, n_bytes <= 512 ? SAC_OK : SAC_BAD_FILE);
            if (st != SAC_OK) assert_non_null(strstr(err.text, "line 257: a token of more than 512 bytes"));
        }
    sac_tokenizer *t = NULL;
    assert_int_equal(sac_tokenizer_open_tiktoken(&t, (sac_text_span){"", 0}, (sac_text_span){config, strlen(config)}, &err), SAC_BAD_FILE);
    assert_non_null(strstr(err.text, "no token for the byte 0x00"));
}

/* Tokens of 512 bytes, so many that to cut each at every place would take long: told before. */
static void test_many_cuts(void **state) {
    enum { N = (16 << 20) / 511 + 1 };
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    (void)state;
    sac_error err = {0};
    sac_tokenizer *t;
    size_t n = 0;
    char *text = malloc((size_t)N * 700 + 4096);
    assert_non_null(text);
    for (int b = 0; b < 256; b++) n += (size_t)sprintf(text + n, "%c%c== %d\n", digits[b >> 2], digits[(b & 3) << 4], b);
    for (int i = 0; i < N; i++) {
        memset(text + n, 'A', 684);
        for (int k = 0; k < 4; k++) text[n + (size_t)k] = digits[i >> 6 * k & 63];
        text[n + 683] = '=';
        n += 684;
        n += (size_t)sprintf(text + n, " %d\n", 256 + i);
    }
    assert_int_equal(sac_tokenizer_open_tiktoken(&t, (sac_text_span){text, n}, (sac_text_span){config, strlen(config)}, &err), SAC_BAD_FILE);
    assert_non_null(strstr(err.text, "can be cut in two in 16777663 ways, at most 16777216 are tried"));
    free(text);
}

/* No flag of tokenizer_config.json moves white space into a control token, or keeps it from being one. */
static void test_flags(void **state) {
    (void)state;
    char json[] = "{\"tokenizer_class\": \"TikTokenTokenizer\", \"added_tokens_decoder\": {\"NNN\": {\"content\": \"<x>\", "
                                  "\"lstrip\": true, \"rstrip\": true, \"single_word\": true}}}";
    sac_error err = {0};
    sac_tokenizer *t;
    int32_t ids[16];
    FILE *f = fopen(FOLDER "tiktoken.model", "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    const size_t n_bytes = (size_t)ftell(f);
    rewind(f);
    char *file = malloc(n_bytes);
    assert_true(file && fread(file, 1, n_bytes, f) == n_bytes);
    fclose(f);
    int n_lines = 0;
    for (size_t i = 0; i < n_bytes; i++) n_lines += file[i] == '\n';
    char id[12];
    snprintf(id, sizeof id, "%03d", n_lines % 1000);
    assert_true(n_lines >= 256 && n_lines < 1000);
    memcpy(strstr(json, "NNN"), id, 3);
    assert_ok(sac_tokenizer_open_tiktoken(&t, (sac_text_span){file, n_bytes}, (sac_text_span){json, strlen(json)}, &err), err);
    size_t n_controls = 0, n_back;
    char back[16];
    const size_t n = ids_of(t, "a <x> b<x>c", 11, true, false, ids);
    for (size_t i = 0; i < n; i++) n_controls += ids[i] == n_lines;
    assert_int_equal(n_controls, 2);
    assert_ok(sac_detokenize(t, ids, n, false, back, sizeof back, &n_back, &err), err);
    assert_int_equal(n_back, 11);
    assert_memory_equal(back, "a <x> b<x>c", 11);
    sac_tokenizer_free(t);
    free(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_gguf),
        cmocka_unit_test(test_plain_text),
        cmocka_unit_test(test_long_words),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_many_cuts),
        cmocka_unit_test(test_flags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
