#include "json_stream.h"
#include "test.h"

static sac_json_stream open_text(const char *text) {
    sac_json_stream s;
    sac_json_stream_open(&s, text, strlen(text));
    return s;
}

static void test_values(void **state) {
    (void)state;
    sac_json_stream s =
        open_text(" {\"a\" : [1, -2.5e1, \"x\\u00e9\\ud83d\\ude00\\n\\u0000\"], \"b\":{}, \"c\":null }\n");
    sac_error err = {0};
    const char *text;
    size_t n;
    int64_t i;
    double d;
    bool more;
    assert_int_equal(sac_json_stream_peek(&s), SAC_JSON_OBJECT);
    assert_ok(sac_json_stream_enter(&s, '{', &err), err);
    assert_ok(sac_json_stream_next(&s, &more, &err), err);
    assert_true(more);
    assert_ok(sac_json_stream_key(&s, &text, &n, &err), err);
    assert_memory_equal(text, "a", n);
    assert_ok(sac_json_stream_enter(&s, '[', &err), err);
    assert_ok(sac_json_stream_next(&s, &more, &err), err);
    assert_ok(sac_json_stream_int(&s, &i, &err), err);
    assert_int_equal(i, 1);
    assert_ok(sac_json_stream_next(&s, &more, &err), err);
    assert_ok(sac_json_stream_float(&s, &d, &err), err);
    assert_true(d == -25);
    assert_ok(sac_json_stream_next(&s, &more, &err), err);
    assert_ok(sac_json_stream_string(&s, &text, &n, &err), err);
    assert_int_equal(n, 9);
    assert_memory_equal(text, "x\xc3\xa9\xf0\x9f\x98\x80\n\0", 9);
    assert_ok(sac_json_stream_next(&s, &more, &err), err);
    assert_false(more);
    for (const char *const *want = (const char *const[]){"{}", "null", NULL}; *want; want++) {
        assert_ok(sac_json_stream_next(&s, &more, &err), err);
        assert_ok(sac_json_stream_key(&s, &text, &n, &err), err);
        assert_ok(sac_json_stream_skip(&s, &text, &n, &err), err);
        assert_int_equal(n, strlen(*want));
        assert_memory_equal(text, *want, n);
    }
    assert_ok(sac_json_stream_next(&s, &more, &err), err);
    assert_false(more);
    assert_ok(sac_json_stream_end(&s, &err), err);
    sac_json_stream_close(&s);
}

static void test_integers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
        bool good;
    } all[] = {{"0", 0, true},
               {"-0", 0, true},
               {"9223372036854775807", INT64_MAX, true},
               {"-9223372036854775808", INT64_MIN, true},
               {"9223372036854775808", 0, false},
               {"-9223372036854775809", 0, false},
               {"999999999999999999", 999999999999999999, true},
               {"1000000000000000000", 1000000000000000000, true},
               {"7,", 7, true},
               {"0,", 0, true},
               {"123456789012345678901", 0, false},
               {"1.0", 0, false},
               {"1.,", 0, false},
               {"1E3,", 0, false},
               {"1e3", 0, false},
               {"-", 0, false},
               {"", 0, false}};
    for (size_t k = 0; k < SAC_COUNT(all); k++) {
        sac_json_stream s = open_text(all[k].text);
        int64_t i = -1;
        sac_error err = {0};
        assert_int_equal(sac_json_stream_int(&s, &i, &err), all[k].good ? SAC_OK : SAC_BAD_FILE);
        if (all[k].good) assert_true(i == all[k].value);
    }
}

static void test_keys_by_name(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int is; /* -1: no key */
    } all[] = {{"\"prompt\":", 1}, {" \"prompt\" :", 1}, {"\"pro\\u006dpt\":", 1}, {"\"\\u0070rompt\":", 1},
               {"\"\":", 0}, {"\"promp\":", 0}, {"\"prompts\":", 0}, {"\"Prompt\":", 0}, {"\"pro\\u006d\":", 0},
               {"\"promp\\n\":", 0}, {"\"prompt\\n\":", 0}, {"\"prompt\\u0000\":", 0}, {"\"\\u00e9prompt\":", 0},
               {"\"prompt\\ud83d\\ude00\":", 0}, {"\"prompt\" 1", -1}, {"\"prompt\"", -1}, {"\"prompt", -1},
               {"\"prompt\\x\":", -1}, {"\"prompt\xff\":", -1}, {"prompt:", -1}, {"", -1}};
    for (size_t k = 0; k < SAC_COUNT(all); k++) {
        sac_json_stream s = open_text(all[k].text);
        bool is = false;
        sac_error err = {0};
        assert_int_equal(sac_json_stream_key_is(&s, "prompt", &is, &err), all[k].is < 0 ? SAC_BAD_FILE : SAC_OK);
        if (all[k].is >= 0 && (is != all[k].is || s.at != s.end)) fail_msg("%s", all[k].text);
        assert_null(s.unescaped);
    }
}

static void test_broken(void **state) {
    (void)state;
    static const char *const bad[] = {"",          "{",           "[",           "]",
                                      "}",         "[1",          "[1,",         "[1,]",
                                      "[,1]",      "{\"a\"}",     "{\"a\":}",    "{\"a\":1,}",
                                      "{a:1}",     "{\"a\" 1}",   "[1 2]",       "[1}",
                                      "{\"a\":1]", "\"",          "\"\\",        "\"\\x\"",
                                      "\"\\u12\"", "\"\\ud800\"", "\"\\udc00\"", "\"\\ud800\\u0041\"",
                                      "\"\n\"",    "\"\x80\"",    "\"\xc3\"",    "\"\xed\xa0\x80\"",
                                      "01",        "1.",          ".5",          "+1",
                                      "1e",        "-",           "tru",         "nul",
                                      "NaN",       "1 2",         "[] x",        "\xef\xbb\xbf[]"};
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        size_t n = strlen(bad[i]);
        char *copy = malloc(n + 1); /* one more than used, so that the pointer is never NULL */
        assert_non_null(copy);
        memcpy(copy, bad[i], n);
        sac_json_stream s;
        sac_error err = {0};
        sac_json_stream_open(&s, copy, n);
        sac_status st = sac_json_stream_skip(&s, NULL, NULL, &err);
        if (st == SAC_OK) st = sac_json_stream_end(&s, &err);
        if (st != SAC_BAD_FILE) fail_msg("\"%s\" was taken", bad[i]);
        assert_non_null(strstr(err.text, "at byte"));
        sac_json_stream_close(&s);
        free(copy);
    }
}

static void test_depth(void **state) {
    (void)state;
    for (int depth = SAC_JSON_STREAM_MAX_DEPTH; depth <= SAC_JSON_STREAM_MAX_DEPTH + 1; depth++) {
        char text[2 * SAC_JSON_STREAM_MAX_DEPTH + 3] = {0};
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        sac_json_stream s = open_text(text);
        sac_error err = {0};
        sac_status want = depth > SAC_JSON_STREAM_MAX_DEPTH ? SAC_BAD_FILE : SAC_OK;
        assert_int_equal(sac_json_stream_skip(&s, NULL, NULL, &err), want);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_integers), cmocka_unit_test(test_keys_by_name),
                                       cmocka_unit_test(test_broken), cmocka_unit_test(test_depth)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
