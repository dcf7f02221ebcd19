/* The template language: generated templates against what Jinja2 made of them (tools/compare_templates.py --golden), limits,
 * the one line of an error, and who wrote each byte. */
#include "json.h"
#include "template.h"
#include "test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define PATH "tests/golden/templates.json"
#ifdef __SANITIZE_ADDRESS__ /* whose frames are larger */
#define SMALL_STACK ((size_t)4 << 20)
#else
#define SMALL_STACK ((size_t)512 << 10)
#endif

typedef struct result {
    sac_status status;
    char text[4096], marks[4096]; /* marks: u for the user's bytes, . for the template's */
    sac_error err;
} result;

static result render(const char *template, const char *variables, sac_template_limits limits) {
    result out = {0};
    sac_template *t = NULL;
    sac_rendering *r = NULL;
    sac_tmpl_string s = {0};
    json_t *json = json_loads(variables, 0, NULL);
    assert_non_null(json);
    out.status = sac_template_open(&t, "chat.jinja", template, strlen(template), &out.err);
    if (out.status == SAC_OK) out.status = sac_rendering_open(&r, t, limits, &out.err);
    if (out.status == SAC_OK)
        out.status =
            sac_rendering_run(r, sac_tmpl_from_json(sac_rendering_values(r), json, true), &s, &out.err);
    if (out.status == SAC_OK && s.n_bytes < sizeof out.text) {
        memcpy(out.text, s.bytes, s.n_bytes);
        for (size_t i = 0; i < s.n_bytes; i++) out.marks[i] = (s.marks ? s.marks[i] : s.is_user) ? 'u' : '.';
    }
    sac_rendering_free(r);
    sac_template_free(t);
    json_decref(json);
    return out;
}

static result render_plain(const char *template) {
    return render(template, "{\"s\": \"<Ab>\", \"xs\": [\"p\", \"q\"]}", sac_template_limits_for(0));
}

/* ---- Jinja2 ---- */

static bool is_equal(const json_t *variables, const char *template, size_t n_template, const json_t *wanted) {
    sac_template *t = NULL;
    sac_rendering *r = NULL;
    sac_tmpl_string s = {0};
    sac_error err = {0};
    sac_status st = sac_template_open(&t, "golden", template, n_template, &err);
    if (st == SAC_OK) st = sac_rendering_open(&r, t, sac_template_limits_for(0), &err);
    if (st == SAC_OK) {
        sac_rendering_set_time(r, 0);
        st = sac_rendering_run(r, sac_tmpl_from_json(sac_rendering_values(r), variables, true), &s, &err);
    }
    bool same = st == SAC_OK ? json_is_string(wanted) && s.n_bytes == json_string_length(wanted) &&
                                   memcmp(s.bytes, json_string_value(wanted), s.n_bytes) == 0
                             : json_is_null(wanted);
    if (!same)
        print_message("%.*s\n  %s\n", (int)n_template, template, st == SAC_OK ? "another text" : err.text);
    sac_rendering_free(r);
    sac_template_free(t);
    return same;
}

static void generated_templates_are_those_of_jinja2(void **state) {
    json_t *golden = json_load_file(PATH, JSON_ALLOW_NUL, NULL);
    size_t n_bad = 0, n;
    (void)state;
    assert_non_null(golden);
    const json_t *cases = json_object_get(golden, "cases"), *given = json_object_get(golden, "variables");
    n = json_array_size(cases);
    assert_true(n >= 300 && json_array_size(given) > 0);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(cases, i), *template = json_array_get(one, 0);
        n_bad += !is_equal(json_array_get(given, i % json_array_size(given)), json_string_value(template),
                           json_string_length(template), json_array_get(one, 1));
    }
    assert_int_equal(n_bad, 0);
    json_decref(golden);
}

/* ---- errors ---- */

static void errors_name_file_line_and_remedy(void **state) {
    static const struct {
        const char *template;
        int line;
        const char *what;
    } cases[] = {
        {"{% if s %}", 1, "endif"},
        {"a\n{% for x in xs %}\n{% endif %}", 3, "endif"},
        {"\n\n{{ s", 3, "}}"},
        {"{{ s|no_such }}", 1, "no_such"},
        {"{% if s %}{{ s|no_such }}{% endif %}", 1, "no_such"},
        {"{{ s|urlencode }}", 1, "urlencode"},
        {"{{ s is no_such }}", 1, "no_such"},
        {"\n{{ s.no_such() }}", 2, "no_such"},
        {"\n\n{{ xs.append(1) }}", 3, "append"},
        {"{{ missing.x }}", 1, "missing"},
        {"{{ s + 1 }}", 1, "str"},
        {"{% include 'a' %}", 1, "include"},
        {"{% import 'a' as b %}", 1, "import"},
        {"{% extends 'a' %}", 1, "extends"},
        {"{% block a %}{% endblock %}", 1, "block"},
        {"{% frob %}", 1, "frob"},
        {"{% break %}", 1, "break"},
        {"{% set x.y = 1 %}", 1, "x"},
        {"{{ 'a }}", 1, "closing"},
        {"{{ 1 // 0 }}", 1, "zero"},
        {"{{ 99999999999999999999 }}", 1, "64 bits"},
        {"{{ no_such() }}", 1, "no_such"},
        {"{% macro m(a) %}{% endmacro %}\n{{ m(1, 2) }}", 2, "arguments"},
        {"{{ s|replace('a') }}", 1, "new"},
        {"{# open", 1, "#}"},
        {"{% raw %}a", 1, "endraw"},
        {"{{ ( }}", 1, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char place[64];
        result r = render_plain(cases[i].template);
        if (r.status != SAC_BAD_FILE) fail_msg("'%s' gives status %d", cases[i].template, r.status);
        snprintf(place, sizeof place, "chat.jinja line %d: ", cases[i].line);
        if (strncmp(r.err.text, place, strlen(place)) != 0 || !strstr(r.err.text, cases[i].what) ||
            !strstr(r.err.text, "; mend the template, or name another with --chat") ||
            strchr(r.err.text, '\n'))
            fail_msg("'%s' says: %s", cases[i].template, r.err.text);
    }
}

static void a_template_may_refuse(void **state) {
    result r = render_plain("\n{{ raise_exception('only ' ~ s) }}");
    (void)state;
    assert_int_equal(r.status, SAC_BAD_ARGUMENT);
    assert_string_equal(r.err.text, "chat.jinja line 2 refuses this conversation: only <Ab>");
}

static void what_is_not_utf8_is_no_template(void **state) {
    result r = render_plain("a\xff");
    (void)state;
    assert_int_equal(r.status, SAC_BAD_FILE);
    assert_non_null(strstr(r.err.text, "UTF-8"));
}

/* ---- limits ---- */

static void need_limit(const char *template, sac_template_limits limits, const char *what) {
    result r = render(template, "{\"s\": \"x\"}", limits);
    if (r.status != SAC_BAD_FILE || !strstr(r.err.text, what) || strchr(r.err.text, '\n') ||
        strncmp(r.err.text, "chat.jinja line ", 16) != 0)
        fail_msg("'%s' ends with %d: %s", template, r.status, r.err.text);
}

/* Each would run or grow for ages. */
static void work_is_bounded(void **state) {
    const sac_template_limits limits = {.memory_bytes = 64 << 20, .output_bytes = 1 << 20, .steps = 1 << 20};
#define MANY "range(99999)"
    (void)state;
    need_limit("{% for a in " MANY " %}{% for b in " MANY " %}{% endfor %}{% endfor %}", limits, "steps");
    /* lists that hold one list twice are 2^60 values to compare */
    need_limit("{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}"
               "{% set ns.b = [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}",
               limits, "steps");
    need_limit("{% set ns = namespace(a=(1,), b=(1,)) %}{% for i in range(60) %}{% set ns.a = (ns.a, ns.a) %}"
               "{% set ns.b = (ns.b, ns.b) %}{% endfor %}{{ {ns.a: 1}.get(ns.b) }}",
               limits, "steps");
    need_limit(
        "{% set ns = namespace(a=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}"
        "{{ ns.a|tojson|length }}",
        limits, "steps");
    need_limit("{% set t = 'a' * 400000 %}{% for i in " MANY " %}{{ t.rfind('b' ~ t[:200000]) }}{% endfor %}",
               (sac_template_limits){.memory_bytes = 1 << 30, .output_bytes = 1 << 20, .steps = 1 << 20},
               "steps");
    need_limit("{% for x in range(100001) %}{% endfor %}", limits, "more than 100000 numbers");
    need_limit("{{ '%1001d' % 1 }}", limits, "wider than 1000");
    need_limit("{{ [[]]|tojson(indent=999999999) }}", limits, "steps");
    need_limit("{{ 'a'|indent(999999999) }}", limits, "steps");
    need_limit("{{ " MANY "|map('string')|batch(999999999, 'x')|list }}", limits, "steps");
    need_limit("{{ [1]|slice(999999999)|list|length }}", limits, "steps");
    /* an iterator whose items nobody takes still looks for one */
    need_limit("{% for a in " MANY " %}{% for b in " MANY "|select('gt', 99999) %}{% endfor %}{% endfor %}",
               limits, "steps");
    need_limit("{% for a in " MANY " if false %}{% endfor %}{% for a in " MANY " %}{% for b in " MANY
               " if false %}{{ loop }}{% endfor %}{% endfor %}",
               limits, "steps");
    need_limit("{{ 'a' * 99999999 }}", limits, "steps");
    need_limit("{{ 'ab'.center(9999999999) }}", limits, "steps");
    need_limit("{% for a in " MANY " %}{{ xs|default('0123456789' * 200) }}{% endfor %}", limits,
               "writes more");
    need_limit("{% set ns = namespace(a='0123456789' * 1000) %}{% for i in " MANY
               " %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}",
               (sac_template_limits){.memory_bytes = 1 << 20, .output_bytes = 1 << 20, .steps = 1 << 30},
               "memory");
}

static void depth_is_bounded(void **state) {
    const sac_template_limits limits = sac_template_limits_for(0);
    char deep[5000];
    size_t n = 0;
    (void)state;
    need_limit("{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}", limits, "deep");
    need_limit("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", limits, "deep");
    need_limit("{% macro m(caller=none) %}{% call m() %}{% endcall %}{% endmacro %}{{ m() }}", limits,
               "deep");
#define NESTED                                                                                               \
    "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(1500) %}{% set ns.a = [ns.a] %}{% set ns.b = "  \
    "[ns.b] %}{% endfor %}"
    need_limit(NESTED "{{ ns.a }}", limits, "deep");
    need_limit(NESTED "{{ ns.a|tojson }}", limits, "deep");
    need_limit(NESTED "{{ ns.a < ns.b }}", limits, "");
    need_limit(NESTED "{{ ns.a == ns.b }}", limits, "steps");
    need_limit(
        "{% set ns = namespace(a=(1,)) %}{% for i in range(1500) %}{% set ns.a = (ns.a,) %}{% endfor %}"
        "{{ {ns.a: 1} }}",
        limits, "deep");
    need_limit("{% set ns = namespace(a=['x']) %}{% for i in range(1500) %}{% set ns.a = ns.a|map('upper') %}"
               "{% endfor %}{{ ns.a|list }}",
               limits, "deep");
    need_limit(
        "{% set ns = namespace(a=['x']) %}{% for i in range(1500) %}{% set ns.a = ns.a|unique|select %}"
        "{% endfor %}{{ ns.a|first }}",
        limits, "deep");
    for (; n < 1000; n++) deep[n] = '(';
    memcpy(deep, "{{", 2);
    deep[n] = 0;
    need_limit(deep, limits, "deep");
    for (n = 0; n < 4900; n += 14) memcpy(deep + n, "{% if s %}abcd", 15);
    need_limit(deep, limits, "deep");
}

static void a_template_is_bounded(void **state) {
    size_t n = SAC_TEMPLATE_MAX_BYTES + 1;
    char *text = malloc(n + 1), *at = text;
    sac_template *t = NULL;
    sac_error err = {0};
    (void)state;
    assert_non_null(text);
    memset(text, ' ', n);
    assert_int_equal(sac_template_open(&t, "chat.jinja", text, n, &err), SAC_BAD_FILE);
    assert_null(t);
    assert_non_null(strstr(err.text, "chat.jinja: a template of 1048577 bytes; at most 1048576 can be used"));
    for (int i = 0; i < 4097; i++) at += sprintf(at, "{{ n%d }}", i);
    assert_int_equal(sac_template_open(&t, "chat.jinja", text, (size_t)(at - text), &err), SAC_BAD_FILE);
    assert_non_null(strstr(err.text, "chat.jinja line 1: more than 4096 different names"));
    free(text);
}

static void *run_deep(void *unused) {
    (void)unused;
    depth_is_bounded(NULL);
    return NULL;
}

/* What a thread has on macOS, where nobody asks for more. */
static void depth_fits_a_small_stack(void **state) {
    pthread_attr_t small;
    pthread_t thread;
    (void)state;
    pthread_attr_init(&small);
    assert_int_equal(pthread_attr_setstacksize(&small, SMALL_STACK), 0);
    assert_int_equal(pthread_create(&thread, &small, run_deep, NULL), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&small);
}

/* ---- whose ---- */

static void every_byte_knows_who_wrote_it(void **state) {
    static const struct {
        const char *template, *text, *marks;
    } cases[] = {
        {"<|a|>{{ s }}<|b|>", "<|a|><Ab><|b|>", ".....uuuu....."},
        {"{{ '<' ~ s|upper ~ '>' }}", "<<AB>>", ".uuuu."},
        {"{{ s[1:3] + '<|a|>' }}", "Ab<|a|>", "uu....."},
        {"{{ s|replace('A', '<|x|>') }}", "<<|x|>b>", "u.....uu"},
        {"{{ '<|x|>'|replace('x', s) }}", "<|<Ab>|>", "..uuuu.."},
        {"{{ xs|join('<|x|>') }}", "p<|x|>q", "u.....u"},
        {"{{ xs|tojson }}", "[\"p\", \"q\"]", "..u....u.."},
        {"{{ [s] }}", "['<Ab>']", "..uuuu.."},
        {"{% set x %}<|{{ s }}|>{% endset %}{{ x[1:] }}", "|<Ab>|>", ".uuuu.."},
        {"{{ '%s<|%s' % (s, 1) }}", "<Ab><|1", "uuuu..."},
        {"{{ '{}<|'.format(s) }}", "<Ab><|", "uuuu.."},
        {"{{ s.center(6, '*') }}", "*<Ab>*", ".uuuu."},
        {"{{ s * 2 }}", "<Ab><Ab>", "uuuuuuuu"},
        {"{{ s|e }}", "&lt;Ab&gt;", "uuuuuuuuuu"},
        {"{% macro m(v) %}<|{{ v }}{% endmacro %}{{ m(s) }}", "<|<Ab>", "..uuuu"},
        {"{{ s|length }}", "4", "."},
        {"{% filter upper %}<|{{ s }}{% endfilter %}", "<|<AB>", "..uuuu"},
        {"{{ s.split('b')[0] ~ s|reverse }}", "<A>bA<", "uuuuuu"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        result r = render_plain(cases[i].template);
        if (r.status != SAC_OK) fail_msg("%s", r.err.text);
        assert_string_equal(r.text, cases[i].text);
        assert_string_equal(r.marks, cases[i].marks);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generated_templates_are_those_of_jinja2),
        cmocka_unit_test(errors_name_file_line_and_remedy),
        cmocka_unit_test(a_template_may_refuse),
        cmocka_unit_test(what_is_not_utf8_is_no_template),
        cmocka_unit_test(work_is_bounded),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(a_template_is_bounded),
        cmocka_unit_test(depth_fits_a_small_stack),
        cmocka_unit_test(every_byte_knows_who_wrote_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
