/* Method lines of a comparison: what may be said, in which order they come, and that the rest is refused with
 * its place. */
#include "test.h"

#include "method_list_read.h"

static sac_error err;

static sac_status parse_words(method_list *list, const char *text, const text_list *words) {
    err = (sac_error){0};
    return method_list_parse(list, text, text ? strlen(text) : 0, "m.yaml", words, &err);
}

static sac_status parse(method_list *list, const char *text) {
    return parse_words(list, text, &(text_list){0});
}

static void assert_line(const method_list *list, size_t i, const char *name, const char *text) {
    assert_true(i < list->n);
    char *found = method_line_text(list->lines[i].part);
    assert_string_equal(list->lines[i].name, name);
    assert_string_equal(found, text);
    free(found);
}

static void dense_is_always_first(void **state) {
    (void)state;
    method_list list;
    assert_ok(parse(&list, NULL), err);
    assert_int_equal(list.n, 1);
    assert_line(&list, 0, "dense", "dense");
    method_list_free(&list);
    assert_ok(
        parse(&list,
              "- {decode: quest}\n- {name: base line, prefill: dense, kv: f16, rope: model, reduce: none}\n"),
        err);
    assert_int_equal(list.n, 2);
    assert_line(&list, 0, "base line", "dense");
    assert_line(&list, 1, "decode=quest", "decode=quest");
    method_list_free(&list);
}

static void words_follow_the_file(void **state) {
    (void)state;
    method_list list;
    char *items[] = {"prefill=zipvl:tau=0.9  kv=mixed:high=4,low=2",
                     "name=far rope=ntk:factor=4 decode=dense"};
    assert_ok(parse_words(&list, "- {kv: bf16}\n", &(text_list){items, 2}), err);
    assert_int_equal(list.n, 4);
    assert_line(&list, 1, "kv=bf16", "kv=bf16");
    assert_line(&list, 2, "prefill=zipvl:tau=0.9 kv=mixed:high=4,low=2",
                "prefill=zipvl:tau=0.9 kv=mixed:high=4,low=2");
    assert_line(&list, 3, "far", "rope=ntk:factor=4");
    method_list_free(&list);
}

static void sweeps_share_lines(void **state) {
    (void)state;
    method_list list;
    assert_ok(parse(&list, "- {name: as published, prefill: 'zipvl:tau=0.975'}\n"
                           "- sweep: {name: tau, prefill: 'zipvl:tau=*', over: [0.9, 0.975, 1]}\n"
                           "- sweep: {decode: 'twilight:p=*,base=full', kv: mixed, over: ['0.8', 0.9]}\n"),
              err);
    assert_int_equal(list.n, 6);
    assert_int_equal(list.n_sweeps, 2);
    assert_line(&list, 1, "as published", "prefill=zipvl:tau=0.975");
    assert_line(&list, 2, "tau 0.9", "prefill=zipvl:tau=0.9");
    assert_line(&list, 3, "tau 1", "prefill=zipvl:tau=1");
    assert_line(&list, 5, "kv=mixed decode=twilight:p=0.9,base=full",
                "kv=mixed decode=twilight:p=0.9,base=full");
    const method_sweep *s = list.sweeps;
    assert_int_equal(s->n, 3);
    assert_int_equal(s->knob, METHOD_PREFILL);
    assert_true(s->lines[0] == 2 && s->lines[1] == 1 && s->lines[2] == 3);
    assert_string_equal(s->over[1], "0.975");
    assert_string_equal(list.sweeps[1].name, "kv=mixed decode=twilight:p=*,base=full");
    method_list_free(&list);
}

static void files_have_names_of_their_own(void **state) {
    (void)state;
    method_list list;
    assert_ok(parse(&list,
                    "- {prefill: 'zipvl:tau=0.9', name: a/b}\n- {prefill: 'zipvl:tau=0/9'}\n- {kv: '../x'}\n"
                    "- {decode: "
                    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'}\n"),
              err);
    char *file[5];
    for (size_t i = 0; i < 5; i++) {
        file[i] = method_line_file(&list.lines[i]);
        assert_null(strchr(file[i], '/'));
        assert_true(strlen(file[i]) <= 69);
        for (size_t k = 0; k < i; k++) assert_string_not_equal(file[i], file[k]);
    }
    assert_memory_equal(file[0], "dense-", 6);
    assert_memory_equal(file[1], "prefill=zipvl_tau=0.9-", 22);
    for (size_t i = 0; i < 5; i++) free(file[i]);
    method_list_free(&list);
}

static void the_rest_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "holds no method line"},
        {"prefill: zipvl\n", "m.yaml:1: expected a list"},
        {"- zipvl\n", "m.yaml:1: expected a method line"},
        {"- {kv: bf16}\n- {prefil: zipvl}\n", "m.yaml:2: unknown key 'prefil'"},
        {"- {kv: bf16}\n-\n  kv: f32\n  kv: bf16\n", "m.yaml:4: kv is given twice"},
        {"- {kv: }\n", "m.yaml:1: kv: the value is missing"},
        {"- {kv: [a]}\n", "m.yaml:1: kv: expected a text"},
        {"- {kv: 'a b'}\n", "m.yaml:1: kv: 'a b' holds white space"},
        {"- {name: \"a\\eb\", kv: a}\n", "m.yaml:1: name: the text holds a control character"},
        {"- {}\n", "m.yaml:1: the line is empty"},
        {"- {kv: a}\n- {name: x, kv: a}\n", "m.yaml:2: 'x' is the same line as 'kv=a'"},
        {"- {name: x, kv: a}\n- {name: x, kv: b}\n", "m.yaml:2: another line is named 'x'"},
        {"- {name: x, kv: a}\n- {name: x, kv: f16}\n", "m.yaml:2: another line is named 'x'"},
        {"- {kv: a, over: [1, 2]}\n", "m.yaml:1: over belongs into a sweep"},
        {"- {name: x, sweep: {kv: '*', over: [1, 2]}}\n", "m.yaml:1: a sweep stands alone"},
        {"- sweep: {kv: a, over: [1, 2]}\n",
         "m.yaml:1: a sweep has one '*' in its lines, where its values go; found 0"},
        {"- sweep: {kv: '*', decode: 'a:*', over: [1, 2]}\n", "found 2"},
        {"- sweep: {kv: '*'}\n", "m.yaml:1: a sweep needs its values"},
        {"- sweep: {kv: '*', over: [1]}\n", "m.yaml:1: over: expected two values or more"},
        {"- sweep: {kv: '*', over: [1, 2, 1]}\n", "m.yaml:1: over: 1 is there twice"},
        {"- sweep: {kv: '*', over: [1, {}]}\n", "m.yaml:1: over: expected a text"},
        {"- sweep: {kv: '*', over: 1}\n", "m.yaml:1: over: expected a list"},
        {"- sweep: {kv: '*', sweep: {}, over: [1, 2]}\n", "m.yaml:1: a sweep holds no other"},
        {"- {name: tau 2, kv: b}\n- sweep: {name: tau, kv: 'a:*', over: [1, 2]}\n",
         "m.yaml:2: another line is named"},
        {"- {kv: a\n", "m.yaml:2: not YAML"},
        {"- {kv: a}\n---\n- {kv: b}\n", "m.yaml:3: a second document starts here"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        method_list list;
        assert_int_equal(parse(&list, cases[i].text), SAC_BAD_CONFIG);
        if (!strstr(err.text, cases[i].says)) fail_msg("'%s' instead of '%s'", err.text, cases[i].says);
        method_list_free(&list);
    }
    static const char *const words[][2] = {
        {"zipvl", "expected prefill=, kv=, decode=, rope=, reduce= or name=, found 'zipvl'"},
        {"prefill=", "'prefill' has no value"},
        {"kv=a kv=b", "'kv' is given twice"},
        {"speed=1", "found 'speed=1'"},
        {"kv=x name=y", "'y' is the same line as 'kv=x'"},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        method_list list;
        char word[40];
        snprintf(word, sizeof word, "%s", words[i][0]);
        char *items[] = {"kv=x", word};
        assert_true(parse_words(&list, NULL, &(text_list){items, 2}) != SAC_OK);
        if (!strstr(err.text, words[i][1])) fail_msg("'%s' instead of '%s'", err.text, words[i][1]);
        method_list_free(&list);
    }
}

static void a_list_has_an_end(void **state) {
    (void)state;
    char text[600 * 16];
    size_t n = 0;
    for (int i = 0; i < 600; i++) n += (size_t)snprintf(text + n, sizeof text - n, "- {kv: a%d}\n", i);
    method_list list;
    assert_int_equal(parse(&list, text), SAC_BAD_CONFIG);
    assert_non_null(strstr(err.text, "m.yaml:500: more than 500 method lines"));
    method_list_free(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_is_always_first), cmocka_unit_test(words_follow_the_file),
        cmocka_unit_test(sweeps_share_lines),    cmocka_unit_test(files_have_names_of_their_own),
        cmocka_unit_test(the_rest_is_refused),   cmocka_unit_test(a_list_has_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
