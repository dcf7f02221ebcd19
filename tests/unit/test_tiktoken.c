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

/* Control tokens are none where a text may not have them. */
static void test_plain_text(void **state) {
    (void)state;
    sac_tokenizer *t;
    sac_error err = {0};
    int32_t ids[MAX_IDS];
    assert_ok(sac_tokenizer_open_tiktoken_file(&t, FOLDER "tiktoken.model", FOLDER "tokenizer_config.json", &err), err);
    assert_int_equal(ids_of(t, "<|media_pad|>", 13, true, false, ids), 1);
    assert_true(ids_of(t, "<|media_pad|>", 13, false, false, ids) > 1);
    char *text = mixed_text(1 << 16);
    round_trip(t, "tiktoken", text);
    free(text);
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
    sac_tokenizer *t = NULL;
    assert_int_equal(sac_tokenizer_open_tiktoken(&t, (sac_text_span){"", 0}, (sac_text_span){config, strlen(config)}, &err), SAC_BAD_FILE);
    assert_non_null(strstr(err.text, "no token for the byte 0x00"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_plain_text),
        cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
