/* Grammars: regular expressions, GBNF and JSON schemas, what they take and what is refused, and that walks through them never come to a
 * place where nothing may follow. */
#include "gbnf.h"
#include "machine.h"
#include "regex.h"
#include "schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool accepts(const grammar *g, const char *text) {
    machine *m = machine_open(g);
    assert_non_null(m);
    while (*text && machine_step(m, (unsigned char)*text)) text++;
    bool ok = !*text && machine_may_end(m, 0);
    machine_close(m);
    return ok;
}

/* ---------------------------------------------------------------- regular expressions */

static bool open_regex(grammar *g, const char *pattern, bool whole, bool in_json) {
    const char *why;
    serve_problem p = {0};
    grammar_init(g, GRAMMAR_RULES_DEPTH);
    int root = regex_compile(g, pattern, strlen(pattern), whole, in_json, &why);
    return root >= 0 && grammar_finish(g, root, "the regular expression", "x", &p);
}

/* Texts divided by bars: those that match, then those that do not. */
static void check_regex(const char *pattern, bool whole, bool in_json, const char *yes, const char *no) {
    grammar g;
    if (!open_regex(&g, pattern, whole, in_json)) print_error("%s\n", pattern);
    for (int k = 0; k < 2; k++)
        for (const char *at = k ? no : yes; at; at = strchr(at, '~') ? strchr(at, '~') + 1 : NULL) {
            char text[200] = {0};
            memcpy(text, at, strcspn(at, "~"));
            if (accepts(&g, text) != (k == 0)) print_error("%s: %s\n", pattern, text);
            assert_true(accepts(&g, text) == (k == 0));
        }
    grammar_free(&g);
}

static void regexes(void **state) {
    (void)state;
    check_regex("a|bc*", true, false, "a~b~bccc", "~ab~c~ba");
    check_regex("(a|b)*c{2,3}", true, false, "cc~abacc~bccc", "c~acccc~");
    check_regex("(?:ab){2}x?", true, false, "abab~ababx", "ab~ababxx");
    check_regex("\\d{3}-\\w+\\.", true, false, "123-a_9.", "12-a.~123-a");
    check_regex("[^a-z\\d]", true, false, "A~\xc3\xa9~\xf0\x9f\x98\x80", "a~3~AA");
    check_regex("[\\u00e0-\\u00ff]+", true, false, "\xc3\xa9\xc3\xbf", "e~\xc3\x9f~\xc4\x80");
    check_regex("(a*)*b", true, false, "b~aaab", "a~ba");
    check_regex("a{,3}", true, false, "a{,3}", "aaa");
    check_regex("^(x|y)$", true, false, "x~y", "xy");
    check_regex("bc", false, false, "bc~abcd", "b~cb");
    check_regex("^b|c$", false, false, "b~bx~xc", "xb~cx~");
    check_regex("^[a\"\\\\\\n]{1,3}$", false, true, "a~\\\"~\\\\~\\na", "\"~\\~\n~aaaa");
    check_regex("^.{2}$", false, true, "ab~\\\"\xc3\xa9~\\t\\\\", "a~abc~\\u0041b");
    static const char *const refused[] = {"(",     "a)",         "[a",     "*a",    "a{3,1}",
                                          "(?=a)", "(?<!a)b",    "\\1",    "\\bx",  "[z-a]",
                                          "x^y",   "a{1000001}", "\\p{L}", "\\u12", "\xff"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        grammar g;
        if (open_regex(&g, refused[i], true, false)) print_error("taken: %s\n", refused[i]);
        grammar_free(&g);
        assert_false(open_regex(&g, refused[i], true, false));
        grammar_free(&g);
    }
}

/* ---------------------------------------------------------------- GBNF */

static bool open_gbnf(grammar *g, const char *text, char *why, size_t room) {
    serve_problem p = {0};
    grammar_init(g, GRAMMAR_RULES_DEPTH);
    int root = gbnf_compile(g, text, strlen(text), why, room);
    if (*why) return false;
    bool ok = grammar_finish(g, root, "the grammar", "x", &p);
    snprintf(why, room, "%s", p.message);
    return ok;
}

static void check_gbnf(const char *text, const char *yes, const char *no) {
    grammar g;
    char why[400] = "";
    if (!open_gbnf(&g, text, why, sizeof why)) print_error("%s\n", why);
    assert_true(accepts(&g, yes));
    assert_false(accepts(&g, no));
    grammar_free(&g);
}

static void gbnf(void **state) {
    (void)state;
    check_gbnf("root ::= \"a\" [0-9]+ | \"b\"", "a12", "ab");
    check_gbnf("# chess\nroot ::= move (\" \" move)*\nmove ::= [a-h] [1-8]\n", "a1 h8 c3", "a1 i2");
    check_gbnf("root ::= \"(\" root* \")\"", "(()(()))", "(()");
    check_gbnf("root ::= x{2,3}\nx ::= \"\\x41\" | \"\\u00e9\" | \"\\\"\"", "A\xc3\xa9\"", "A");
    check_gbnf("root ::= [^\\n\"]* \"\\n\"\n  | \"z\" .", "a-b\n", "a\"b\n");
    check_gbnf("root ::=\n  list\nlist ::= (\n  \"- \" [a-z]+ \"\\n\"\n)+", "- a\n- bc\n", "- a\n- ");
    check_gbnf("root ::= a b? a\na ::= \"x\" | \"\"\nb ::= \"y\"", "y", "yy");
    /* Right and middle recursion as deep as the limit, and no deeper. */
    check_gbnf("root ::= \"a\" root | \"b\"", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "ba");
    static const char *const refused[][2] = {
        {"root ::= root \"a\" | \"b\"", "begins with itself"},
        {"root ::= x \"a\"\nx ::= y? root\ny ::= \"z\"", "without end"},
        {"root ::= \"a\" root", "without end"},
        {"root ::= a", "the rule 'a' is used"},
        {"a ::= \"x\"", "no rule 'root'"},
        {"root ::= \"a", "line 1: it ends too soon"},
        {"root ::= \"a\"\nroot ::= \"b\"", "line 2: a rule that is there already"},
        {"root ::= (\"a\"", "a group without its end"},
        {"root ::= [b-a]", "without order"},
        {"root ::= \"a\"{3,2}", "a minimum above its maximum"},
        {"root ::= $", "no literal"},
        {"root = x", "a rule is wanted"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        grammar g;
        char why[400] = "";
        assert_false(open_gbnf(&g, refused[i][0], why, sizeof why));
        if (!strstr(why, refused[i][1])) print_error("%s: %s\n", refused[i][0], why);
        assert_non_null(strstr(why, refused[i][1]));
        grammar_free(&g);
    }
}

/* Grammars that are made to take long are refused, or read in bounded time. */
static void hostile(void **state) {
    (void)state;
    char text[20000], why[400] = "";
    grammar g;
    size_t n = 0;
    for (int i = 0; i < 40; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "r%d ::= r%d | r%d\n", i, i + 1, i + 1);
    snprintf(text + n, sizeof text - n, "r40 ::= \"x\"\nroot ::= r0");
    assert_false(open_gbnf(&g, text, why, sizeof why)); /* 2^40 ways to begin */
    assert_non_null(strstr(why, "too many ways"));
    grammar_free(&g);
    why[0] = 0;
    for (n = 0; n < 200; n++) text[n] = '(';
    text[n] = 0;
    assert_false(open_regex(&g, text, true, false));
    grammar_free(&g);
    /* As many readings as bytes: those beyond the limit are not followed, and the text comes to its end all the same. */
    assert_true(open_gbnf(&g, "root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"d\"", why, sizeof why));
    machine *m = machine_open(&g);
    for (int i = 0; i < 100; i++) assert_true(machine_step(m, 'a'));
    assert_true(machine_step(m, 'd'));
    for (int i = 0; i < 100; i++) assert_true(machine_step(m, 'b') || machine_step(m, 'c'));
    assert_true(machine_is_done(m, 0));
    machine_close(m);
    grammar_free(&g);
    n = (size_t)snprintf(text, sizeof text, "(a");
    for (int i = 0; i < 240; i++) text[n++] = '*';
    snprintf(text + n, sizeof text - n, ")**b");
    assert_true(open_regex(&g, text, true, false));
    m = machine_open(&g);
    for (int i = 0; i < 100; i++) assert_true(machine_step(m, 'a'));
    assert_true(machine_work(m) < 100 * 80000);
    machine_close(m);
    grammar_free(&g);
    assert_true(open_regex(&g, "((x|y(z))*)*", true, false)); /* readings that come to the same are one */
    m = machine_open(&g);
    for (int i = 0; i < 1000; i++) assert_true(machine_step(m, 'x'));
    assert_true(machine_work(m) < 1000 * 20);
    machine_close(m);
    grammar_free(&g);
    assert_true(open_regex(&g, "(a|aa|aaa|a*)*b", true, false));
    assert_true(accepts(&g, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"));
    grammar_free(&g);
}

/* ---------------------------------------------------------------- schemas */

static bool open_schema(grammar *g, const char *text, serve_problem *p) {
    json_t *schema = json_loads(text, 0, NULL);
    assert_non_null(schema);
    *p = (serve_problem){0};
    grammar_init(g, GRAMMAR_JSON_DEPTH);
    int root = schema_compile(g, schema, "response_format", p);
    json_decref(schema);
    return p->status == 0 && grammar_finish(g, root, "the JSON schema", "response_format", p);
}

static void schemas(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        /* schema, texts that match, texts that do not, divided by tildes */
        {"{\"type\": \"integer\", \"minimum\": -3, \"maximum\": 120}", "-3~0~7~120~99",
         "-4~121~1000~-~1.0~07"},
        {"{\"type\": \"integer\", \"exclusiveMinimum\": 9}", "10~99~999999999999999", "9~0~-1"},
        {"{\"type\": \"number\", \"minimum\": 0.25, \"exclusiveMaximum\": 0.5}", "0.25~0.3~0.49999",
         "0.5~0.2~0~1~0.24~-0.3~3e-1"},
        {"{\"type\": \"number\", \"maximum\": -1.5}", "-1.5~-2~-10.25", "-1~-1.4~0~1"},
        {"{\"type\": \"string\", \"pattern\": \"^[A-Z]{2}\\\\d*$\"}", "\"AB\"~\"ZZ12\"",
         "\"A\"~\"AB1x\"~\"\"~AB"},
        {"{\"type\": \"string\", \"pattern\": \"b\"}", "\"b\"~\"abc\"", "\"a\""},
        {"{\"type\": \"string\", \"pattern\": \"^[a-z]+$\", \"minLength\": 2, \"maxLength\": 3}",
         "\"ab\"~\"abc\"", "\"a\"~\"abcd\""},
        {"{\"type\": \"string\", \"format\": \"date\"}", "\"2024-02-28\"", "\"2024-02-30\"~\"24-02-03\""},
        {"{\"type\": \"string\", \"format\": \"ipv4\"}", "\"127.0.0.1\"~\"255.249.10.0\"",
         "\"256.0.0.1\"~\"1.2.3\""},
        {"{\"type\": \"array\", \"prefixItems\": [{\"type\": \"boolean\"}, {\"const\": 1}], \"items\": "
         "false, \"minItems\": 1}",
         "[true]~[false, 1]", "[]~[true, 2]~[true, 1, 1]"},
        {"{\"anyOf\": [{\"type\": \"object\", \"properties\": {\"a\": {\"const\": 1}}, \"required\": "
         "[\"a\"]}, {\"type\": \"object\", \"properties\": {\"a\": "
         "{\"const\": 2}, \"b\": {\"type\": \"null\"}}, \"required\": [\"a\", \"b\"]}]}",
         "{\"a\": 1}~{\"a\": 2, \"b\": null}~{\"b\": null, \"a\": 2}", "{\"a\": 2}~{\"a\": 1, \"b\": null}"},
        {"{\"oneOf\": [{\"type\": \"object\", \"properties\": {\"k\": {\"const\": \"cat\"}}, \"required\": "
         "[\"k\"]}, {\"type\": \"object\", \"properties\": "
         "{\"k\": {\"enum\": [\"dog\", \"fox\"]}}, \"required\": [\"k\"]}], \"discriminator\": "
         "{\"propertyName\": \"k\"}}",
         "{\"k\": \"cat\"}~{\"k\": \"fox\"}", "{\"k\": \"cow\"}"},
        {"{\"allOf\": [{\"properties\": {\"a\": {\"type\": \"integer\", \"minimum\": 1}}, \"type\": "
         "\"object\", \"required\": [\"a\"]}, {\"properties\": "
         "{\"a\": {\"maximum\": 2}, \"b\": {\"type\": \"string\"}}, \"required\": [\"b\"]}]}",
         "{\"a\": 2, \"b\": \"\"}", "{\"a\": 3, \"b\": \"\"}~{\"a\": 1}"},
        {"{\"$defs\": {\"A\": {\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"integer\"}}, "
         "\"required\": [\"x\"]}}, \"$ref\": \"#/$defs/A\", "
         "\"properties\": {\"y\": {\"type\": \"null\"}}}",
         "{\"x\": 1}~{\"x\": 1, \"y\": null}", "{\"y\": null}"},
        {"{\"type\": \"string\", \"nullable\": true, \"maxLength\": 1}", "null~\"a\"", "\"ab\"~1"},
        {"{\"enum\": [\"a\", 1, null], \"type\": [\"string\", \"null\"]}", "\"a\"~null", "1"},
        {"{\"type\": \"object\", \"propertyNames\": {\"enum\": [\"a\", \"b\"]}, \"additionalProperties\": "
         "{\"type\": \"integer\"}}",
         "{}~{\"b\": 1}", "{\"c\": 1}~{\"a\": null}"},
        {"{\"$ref\": \"#/$defs/a~1b%25\", \"$defs\": {\"a/b%\": {\"const\": 7}}}", "7", "8"},
        {"{\"type\": \"object\", \"properties\": {\"a\": {\"$ref\": \"#\"}, \"b\": {\"type\": \"null\"}}, "
         "\"required\": [\"b\"]}",
         "{\"a\": {\"b\": null}, \"b\": null}", "{\"a\": {}, \"b\": null}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        grammar g;
        serve_problem p;
        if (!open_schema(&g, cases[i][0], &p)) print_error("%s: %s\n", cases[i][0], p.message);
        for (int k = 1; k < 3; k++)
            for (const char *at = cases[i][k]; at; at = strchr(at, '~') ? strchr(at, '~') + 1 : NULL) {
                char text[200] = {0};
                memcpy(text, at, strcspn(at, "~"));
                if (accepts(&g, text) != (k == 1)) print_error("%s: %s\n", cases[i][0], text);
                assert_true(accepts(&g, text) == (k == 1));
            }
        grammar_free(&g);
    }
}

static void schemas_that_are_refused(void **state) {
    (void)state;
    static const char *const refused[][2] = {
        {"{\"not\": {}}", "'not'"},
        {"{\"oneOf\": [{\"type\": \"string\"}, {\"type\": \"string\", \"maxLength\": 3}]}", "may both match"},
        {"{\"type\": \"integer\", \"minimum\": 3, \"maximum\": 2}", "no number"},
        {"{\"type\": \"integer\", \"multipleOf\": 3}", "'multipleOf'"},
        {"{\"type\": \"array\", \"uniqueItems\": true}", "'uniqueItems'"},
        {"{\"type\": \"string\", \"pattern\": \"(a\"}", "'pattern': a group without its end"},
        {"{\"type\": \"string\", \"pattern\": \"^ab$\", \"maxLength\": 1}", "does not keep"},
        {"{\"type\": \"string\", \"format\": \"colour\"}", "the format 'colour'"},
        {"{\"enum\": [1], \"type\": \"string\"}", "no value"},
        {"{\"enum\": [\"a\"], \"minLength\": 3}", "beside 'enum'"},
        {"{\"allOf\": [{\"type\": \"string\"}, {\"type\": \"null\"}]}", "in common"},
        {"{\"$ref\": \"#/$defs/A\"}", "leads nowhere"},
        {"{\"$ref\": \"#\"}", "leads nowhere"},
        {"{\"$defs\": {\"A\": {\"$ref\": \"#/$defs/B\"}, \"B\": {\"$ref\": \"#/$defs/A\"}}, \"$ref\": "
         "\"#/$defs/A\"}",
         "leads nowhere"},
        {"{\"type\": \"object\", \"properties\": {\"a\": false}, \"required\": [\"a\"]}", "'required'"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        grammar g;
        serve_problem p;
        assert_false(open_schema(&g, refused[i][0], &p));
        if (!strstr(p.message, refused[i][1])) print_error("%s: %s\n", refused[i][0], p.message);
        assert_non_null(strstr(p.message, refused[i][1]));
        assert_int_equal(p.status, 400);
        grammar_free(&g);
    }
}

/* ---------------------------------------------------------------- choices and marks */

static void choices_and_marks(void **state) {
    (void)state;
    grammar g;
    serve_problem p = {0};
    grammar_text texts[700];
    static char names[700][8];
    for (int i = 0; i < 700; i++) {
        snprintf(names[i], sizeof names[i], "name%03d", i);
        texts[i] = (grammar_text){names[i], 7};
    }
    texts[5].n = 4; /* "name" itself, with which all others begin */
    grammar_init(&g, 8);
    assert_true(grammar_finish(&g, grammar_choice(&g, texts, 700), "x", "x", &p));
    assert_true(accepts(&g, "name") && accepts(&g, "name000") && accepts(&g, "name699"));
    assert_false(accepts(&g, "name005") || accepts(&g, "name70") || accepts(&g, "name700") ||
                 accepts(&g, ""));
    grammar_free(&g);
    grammar_init(&g, 8);
    int items[] = {grammar_until(&g, "aab", 3), grammar_bytes(&g, "!", 1)};
    assert_true(grammar_finish(&g, grammar_seq(&g, items, 2), "x", "x", &p));
    assert_true(accepts(&g, "aab!") && accepts(&g, "xaaab!") && accepts(&g, "a\naabab aab!") == false);
    grammar_free(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regexes),
        cmocka_unit_test(gbnf),
        cmocka_unit_test(hostile),
        cmocka_unit_test(schemas),
        cmocka_unit_test(schemas_that_are_refused),
        cmocka_unit_test(choices_and_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
