/* Needle sets: rows and what is refused of them, and the benchmarks' rules of scoring, with answers worked out by hand. */
#include "test.h"

#include "needle_set.h"

static sac_error err;

static double score(needle_metric metric, const char *response, const char *outputs) {
    json_t *list = json_loads(outputs, 0, NULL);
    assert_non_null(list);
    double s = needle_score(metric, response, list);
    json_decref(list);
    return s;
}

static void rules_of_ruler(void **state) {
    (void)state;
    const char *four = "[\"ABCDE\", \"12\", \"x-y\", \"Z\"]";
    assert_true(score(NEEDLE_ALL, "abcde, 12 and X-Y, z", four) == 1);
    assert_true(score(NEEDLE_ALL, "12", four) == 0.25);
    assert_true(score(NEEDLE_ALL, "abcd 112x", four) == 0.25); /* within another word, as the script has it */
    assert_true(score(NEEDLE_ALL, "", four) == 0);
    assert_true(score(NEEDLE_PART, "it is 12.", four) == 1);
    assert_true(score(NEEDLE_PART, "abcd", four) == 0);
    assert_true(score(NEEDLE_PART, "Denver Bronco", "[\"Denver Broncos\", \"broncos\"]") == 0);
}

static void rules_of_infinitebench(void **state) {
    (void)state;
    assert_true(score(NEEDLE_NUMBER, "The pass key is 12345.", "[\"12345\"]") == 1);
    assert_true(score(NEEDLE_NUMBER, "1 or 12345", "[\"12345\"]") == 0);
    assert_true(score(NEEDLE_NUMBER, "123456", "[\"12345\"]") == 0);
    assert_true(score(NEEDLE_NUMBER, "", "[\"12345\"]") == 0);
    assert_true(score(NEEDLE_WORD, "value:\"ab-1\".", "[\"ab-1\"]") == 1);
    assert_true(score(NEEDLE_WORD, "xab-1", "[\"ab-1\"]") == 0);
    assert_true(score(NEEDLE_WORD, "AB-1", "[\"ab-1\"]") == 0);
}

static void rows_are_read(void **state) {
    (void)state;
    static const char text[] =
        "{\"id\": \"a\", \"task\": \"vt\", \"length\": 64, \"input\": \"i\", \"outputs\": [\"A\", \"B\"], "
        "\"metric\": \"part\", "
        "\"max_tokens\": 3, \"media\": [\"p/a.png\"]}\n\n"
        "{\"index\": 7, \"task\": \"t\", \"input\": \"x\", \"answer_prefix\": \" is\", \"outputs\": [\"y\"], "
        "\"turns\": [{\"input\": \"z\", \"outputs\": [\"1\"]}]}\n";
    needle_set set;
    assert_ok(needle_set_parse(&set, text, sizeof text - 1, "s", 0, &err), err);
    assert_int_equal(set.n_rows, 2);
    assert_int_equal(set.rows[0].metric, NEEDLE_PART);
    assert_int_equal(set.rows[0].length, 64);
    assert_int_equal(set.rows[0].max_tokens, 3);
    assert_int_equal(json_array_size(set.rows[0].media), 1);
    assert_string_equal(set.rows[1].id, "t-0-7");
    assert_string_equal(set.rows[1].turns[0].behind, " is");
    assert_int_equal(set.rows[1].n_turns, 2);
    assert_string_equal(set.rows[1].turns[1].input, "z");
    assert_int_equal(needle_set_find(&set, "t-0-7"), 1);
    assert_true(needle_set_find(&set, "b") == SIZE_MAX);
    needle_set_free(&set);
    assert_ok(needle_set_parse(&set, text, sizeof text - 1, "s", 1, &err), err);
    assert_int_equal(set.n_rows, 1);
    needle_set_free(&set);
}

static void the_rest_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "s: holds no question"},
        {"[]", "s:1: an object is expected"},
        {"\n{", "s:2: not JSON"},
        {"{\"id\": \"a\", \"outputs\": [\"x\"]}", "s:1: input: is missing"},
        {"{\"id\": \"a\", \"input\": \"\", \"outputs\": [\"x\"]}", "s:1: input: a text is expected"},
        {"{\"id\": \"a\", \"input\": \"x\"}", "s:1: outputs: is missing"},
        {"{\"id\": \"a\", \"input\": \"x\", \"outputs\": []}", "s:1: outputs: a list of 1"},
        {"{\"id\": \"a\", \"input\": \"x\", \"outputs\": [\"\"]}", "none of them empty"},
        {"{\"input\": \"x\", \"outputs\": [\"x\"]}", "s:1: id: is missing"},
        {"{\"id\": \"a\", \"input\": \"x\", \"outputs\": [\"x\"], \"metric\": \"f1\"}", "found 'f1'"},
        {"{\"id\": \"a\", \"input\": \"x\", \"outputs\": [\"x\"], \"length\": 0}", "s:1: length"},
        {"{\"id\": \"a\", \"input\": \"x\", \"outputs\": [\"x\"], \"media\": [\"../a.png\"]}",
         "leaves the set's folder"},
        {"{\"id\": \"a\", \"input\": \"x\", \"outputs\": [\"x\"], \"media\": [\"/a.png\"]}",
         "leaves the set's folder"},
        {"{\"id\": \"a\", \"input\": \"x\", \"outputs\": [\"x\"], \"turns\": [1]}", "a list of objects"},
        {"{\"id\": \"a\", \"input\": \"x\", \"outputs\": [\"x\"]}\n{\"id\": \"a\", \"input\": \"x\", "
         "\"outputs\": [\"x\"]}",
         "s:2: id: 'a' is there twice"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        needle_set set;
        assert_int_equal(needle_set_parse(&set, bad[i].text, strlen(bad[i].text), "s", 0, &err),
                         SAC_BAD_FILE);
        if (!strstr(err.text, bad[i].says)) print_message("%s\n", err.text);
        assert_non_null(strstr(err.text, bad[i].says));
        needle_set_free(&set);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_of_ruler),
        cmocka_unit_test(rules_of_infinitebench),
        cmocka_unit_test(rows_are_read),
        cmocka_unit_test(the_rest_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
