/* A long prompt's ids, read beside the JSON: a request is what it is without that, or is refused with the same words. */
#include "listed_ids.h"
#include "prompts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VOCAB = 300, N = 9000 };

/* before, a list of N ids of which one is `odd` (NULL: none), after. To be freed. */
static char *body_of(const char *before, const char *odd, const char *after, const char *between) {
    char *text = malloc(16 * N + 4096), *at = text;
    at += sprintf(at, "%s[", before);
    for (int i = 0; i < N; i++)
        at += i == N - 7 && odd ? sprintf(at, "%s%s", between, odd) : sprintf(at, "%s%d", i ? between : "", i * 7 % VOCAB);
    sprintf(at, "]%s", after);
    return text;
}

/* As one who never looks for them would read it. */
static bool parse_plainly(serve_request *r, const char *body, serve_problem *p) {
    json_error_t e;
    json_t *json = json_loads(body, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (!json) return serve_refuse(p, 400, NULL, "invalid_json", "the body is not JSON: %s (line %d, column %d)", e.text, e.line, e.column);
    *r = (serve_request){.json = json};
    return serve_prompts_parse(r, VOCAB, p);
}

static void check(const char *before, const char *odd, const char *after, const char *between, bool is_found) {
    static const serve_config config = {.model_name = "m"};
    char *body = body_of(before, odd, after, between);
    serve_listed_ids l = serve_find_listed_ids(body, strlen(body), SERVE_LISTED_LEAST);
    serve_request got, want = {0};
    serve_problem said = {0}, expected = {0};
    if ((l.ids != NULL) != is_found) fail_msg("%s ... %s ... %s: %s", before, odd ? odd : "", after, l.ids ? "found" : "not found");
    assert_int_equal(l.n, is_found ? N : 0);
    if (is_found) assert_true(body[l.first - 1] == '[' && body[l.end] == ']');
    free(l.ids);
    const bool ok = serve_request_parse(&got, &config, VOCAB, SERVE_API_COMPLETIONS, body, strlen(body), &said);
    assert_int_equal(ok, parse_plainly(&want, body, &expected));
    assert_string_equal(said.message, expected.message);
    assert_int_equal(said.status, expected.status);
    if (ok) {
        assert_int_equal(got.n_prompts, want.n_prompts);
        assert_int_equal(got.prompts[0].n, want.prompts[0].n);
        assert_memory_equal(got.prompts[0].ids, want.prompts[0].ids, want.prompts[0].n * sizeof(int32_t));
        assert_null(got.listed_ids);
    }
    serve_request_free(&got);
    serve_request_free(&want);
    free(body);
}

static void lists_are_read_as_the_parser_does(void **state) {
    (void)state;
    static const char *const betweens[] = {",", ", ", " ,\n\t"};
    for (size_t i = 0; i < sizeof betweens / sizeof *betweens; i++) {
        check("{\"prompt\": ", NULL, "}", betweens[i], true);
        check("{\"max_tokens\": 3, \"stop\": [\"[1, 2]\", \"\\\"prompt\"], \"prompt\":", NULL, ", \"seed\": 5}", betweens[i], true);
    }
    check("{\"pro\\u006dpt\": ", NULL, "}", ",", true);
    check("{\"prompt\": ", "299", "}", ",", true);
    check("{\"prompt\": ", "0", "}", ",", true);
}

/* Numbers that are no ids, lists of lists, what is no JSON: the parser's to say. */
static void others_are_left_to_the_parser(void **state) {
    (void)state;
    static const char *const odd[] = {"-1", "-0", "1.5", "1e2", "01", "\"a\"", "[1]", "null", "", "1 2", "2147483648", "99999999999999999999", "+1"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) check("{\"prompt\": ", odd[i], "}", ",", false);
    check("{\"prompt\": ", "300", "}", ",", true); /* none of the model's */
    check("{\"prompt\": ", "2147483647", "}", ",", true);
    check("{\"prompt\": ", NULL, ", \"prompt\": [1]}", ",", true);
    check("{\"prompt\": ", NULL, ",}", ",", true);
    check("{\"prompt\": ", NULL, "", ",", true);
    check("{\"prompt\": ", NULL, "} x", ",", true);
    check("{\"prompt\": [", NULL, "]}", ",", false);
    check("{\"a\" 1, \"prompt\": ", NULL, "}", ",", false);
    const char *few = "{\"prompt\": [1, 2, 3]}";
    assert_null(serve_find_listed_ids(few, strlen(few), SERVE_LISTED_LEAST).ids);
    serve_listed_ids l = serve_find_listed_ids(few, strlen(few), 0);
    assert_int_equal(l.n, 3);
    free(l.ids);
    assert_null(serve_find_listed_ids("", 0, 0).ids);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_read_as_the_parser_does),
        cmocka_unit_test(others_are_left_to_the_parser),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
