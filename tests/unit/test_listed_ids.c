/* A long prompt's ids, read beside the JSON: a request is what it is without that, or is refused with the same words. */
#include "listed_ids.h"
#include "prompts.h"

#include <malloc.h>
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
    check("{\"prompt\": ", "-0", "}", ",", true);
}

/* Numbers that are no ids, lists of lists, what is no JSON: the parser's to say. */
static void others_are_left_to_the_parser(void **state) {
    (void)state;
    static const char *const odd[] = {"-1", "1.5", "1e2", "01", "\"a\"", "[1]", "null", "", "1 2", "2147483648", "99999999999999999999", "+1", "-2147483649", "-00"};
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

/* ---------------------------------------------------------------- memory, counted by the linker's --wrap */

static int64_t n_held, n_most;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);

static void *count(void *p) {
    n_held += (int64_t)malloc_usable_size(p);
    if (n_held > n_most) n_most = n_held;
    return p;
}
void *__wrap_malloc(size_t n) {
    return count(__real_malloc(n));
}
void *__wrap_calloc(size_t n, size_t size) {
    return count(__real_calloc(n, size));
}
/* Both blocks count, as where one is copied to the other. */
void *__wrap_realloc(void *p, size_t n) {
    const int64_t n_old = (int64_t)malloc_usable_size(p);
    void *bigger = count(__real_realloc(p, n));
    if (bigger) n_held -= n_old;
    return bigger;
}
void __wrap_free(void *p) {
    n_held -= (int64_t)malloc_usable_size(p);
    __real_free(p);
}

/* To find the list takes `most` bytes, of which the ids' are held; the body around it no more than all of it by the parser. */
static void check_memory(const char *body, size_t n_bytes, int64_t most) {
    const int64_t before = n_most = n_held;
    serve_listed_ids l = serve_find_listed_ids(body, n_bytes, SERVE_LISTED_LEAST);
    assert_int_equal(l.n, N);
    if (n_most - before > most) fail_msg("%.20s: %lld bytes to find the list", body, (long long)(n_most - before));
    if (n_held - before > 4 * N + 64) fail_msg("%.20s: %lld bytes hold %d ids", body, (long long)(n_held - before), N);
    const int64_t with_ids = n_most = n_held;
    json_t *json = serve_parse_around(body, n_bytes, &l);
    const int64_t n_around = n_most - with_ids;
    assert_true(json_is_array(json_object_get(json, "prompt")) && json_array_size(json_object_get(json, "prompt")) == 0);
    json_decref(json);
    free(l.ids);
    n_most = n_held;
    json = json_loadb(body, n_bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    assert_non_null(json);
    if (n_around > n_most - before) fail_msg("%.20s: %lld bytes to read it", body, (long long)n_around);
    json_decref(json);
    assert_int_equal(n_held, before);
}

/* A few ids beside megabytes: no second copy of those, and no room for ids that never come. */
static void memory_is_that_of_the_ids(void **state) {
    (void)state;
    enum { LONG = 3 << 20, MOST = 12 * N + (64 << 10) };
    static const char *const forms[] = {"{%2$s, \"user\": \"%1$s\"}", "{\"user\": \"\\n%1$s\", %2$s}", "{\"saccade\": {\"\\n%1$s\": 1}, %2$s}",
                                        "{\"\\u0070%1$s\": 1, %2$s}"};
    char *filler = malloc(LONG + 1), *list = body_of("\"prompt\": ", NULL, "", ","), *body = malloc(strlen(list) + LONG + 256);
    memset(filler, 'x', LONG);
    filler[LONG] = 0;
    json_set_alloc_funcs(malloc, free); /* jansson's count, too */
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        sprintf(body, forms[i], filler, list);
        check_memory(body, strlen(body), MOST);
    }
    free(filler);
    free(list);
    free(body);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_read_as_the_parser_does),
        cmocka_unit_test(others_are_left_to_the_parser),
        cmocka_unit_test(memory_is_that_of_the_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
