/* Answers divided into reasoning, text and tool calls: the same however the text is cut. */
#include "byte_buffer.h"
#include "call_format.h"
#include "json_scan.h"
#include "splitter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---------------------------------------------------------------- what comes out, as one text */

typedef struct record {
    serve_buffer text;
    int kind;
} record;

/* "T:text", "R:reasoning", "C:name", "A:arguments", each behind a bar; pieces of a kind that follow each other are one. */
static void on_event(void *ctx, splitter_kind kind, const char *text, size_t n) {
    record *r = ctx;
    assert_true(n > 0);
    if (r->kind != (int)kind || kind == SPLITTER_CALL) {
        char mark[] = {'|', "TRCA"[kind], ':'};
        serve_buffer_add(&r->text, mark, sizeof mark);
    }
    r->kind = (int)kind;
    serve_buffer_add(&r->text, text, n);
}

static bool knows(const void *tools, const char *name) {
    return !strcmp(name, tools);
}

static splitter_options options(const char *calls, const char *reasoning) {
    return (splitter_options){.calls = calls ? call_format_find(calls) : NULL,
                              .reasoning = reasoning ? reasoning_format_find(reasoning) : NULL,
                              .knows = knows,
                              .tools = "look"};
}

/* In two pieces, cut at `cut`, or byte by byte. */
static void check_cut(splitter_options o, const char *text, size_t cut, bool bytes, const char *wanted) {
    record r = {.kind = -1};
    size_t n = strlen(text);
    o.event = on_event;
    o.ctx = &r;
    splitter *s = splitter_open(&o);
    assert_non_null(s);
    for (int again = 0; again < 2; again++) {
        r.kind = -1;
        serve_buffer_free(&r.text);
        for (size_t i = 0; bytes && i < n; i++) assert_true(splitter_feed(s, text + i, 1));
        if (!bytes) assert_true(splitter_feed(s, text, cut) && splitter_feed(s, text + cut, n - cut));
        assert_true(splitter_finish(s));
        serve_buffer_add(&r.text, "", 1);
        assert_string_equal(r.text.data, wanted);
        splitter_restart(s);
    }
    splitter_close(s);
    serve_buffer_free(&r.text);
}

static void check(splitter_options o, const char *text, const char *wanted) {
    for (size_t cut = 0; cut <= strlen(text); cut++) check_cut(o, text, cut, false, wanted);
    check_cut(o, text, 0, true, wanted);
}

/* ---------------------------------------------------------------- formats */

static void hermes(void **state) {
    (void)state;
    splitter_options o = options("hermes", NULL);
    check(
        o,
        "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"a\": \"}\\\"\", \"b\": [1, {}]}}\n</tool_call>",
        "|C:look|A:{\"a\": \"}\\\"\", \"b\": [1, {}]}");
    check(o,
          "I look. "
          "\n<tool_call>{\"name\":\"look\",\"arguments\":{}}</"
          "tool_call>\n\n<tool_call>{\"arguments\":{\"x\":1},\"name\":\"b\"}"
          "</tool_call> So.",
          "|T:I look.|C:look|A:{}|C:b|A:{\"x\":1}|T: So.");
    check(o, "<tool_call>{\"name\": \"b\"}</tool_call>", "|C:b|A:{}");
    check(o, "<tool_call>{\"id\": 12, \"name\": \"b\", \"arguments\": 12 }</tool_call>", "|C:b|A:12");
    check(o, "<tool_call>{\"name\": \"b\", \"arguments\": {\"x\": tru", "|C:b|A:{\"x\": tru");
    check(o, "<tool_call>{\"name\": \"b\", \"arguments\": {}} and on", "|C:b|A:{}|T: and on");
    check(o, "<tool_call>{\"name\": \"\\u00e9\\\"\", \"arguments\": {}}</tool_call>", "|C:\xc3\xa9\"|A:{}");
    check(o, "a < b <tool <tool_call", "|T:a < b <tool <tool_call");
    check(o, " \n", "|T: \n");
}

static void hermes_that_is_text(void **state) {
    (void)state;
    splitter_options o = options("hermes", NULL);
    check(o, "<tool_call>look</tool_call>", "|T:<tool_call>look</tool_call>");
    check(o, "<tool_call>{\"name\": 3, \"arguments\": {}}", "|T:<tool_call>{\"name\": 3, \"arguments\": {}}");
    check(o, "<tool_call>{\"arguments\": {}}", "|T:<tool_call>{\"arguments\": {}}");
    check(o, "<tool_call>{\"name\": \"lo", "|T:<tool_call>{\"name\": \"lo");
    check(o, "<tool_call>{<tool_call>{\"name\": \"b\", \"arguments\": {}}</tool_call>",
          "|T:<tool_call>{|C:b|A:{}");
    check(o, "<tool_call>{\"name\": \"b\", \"arguments\": {\"x\" 1}}", "|C:b|A:{\"x\" |T:1}}");
}

static void mistral(void **state) {
    (void)state;
    splitter_options o = options("mistral", NULL);
    check(o,
          "[TOOL_CALLS][{\"name\": \"look\", \"arguments\": {\"a\": 1}}, {\"name\": \"b\", \"arguments\": "
          "[], \"id\": \"abcdef012\"}]",
          "|C:look|A:{\"a\": 1}|C:b|A:[]");
    check(o, "Yes [TOOL_CALLS] [ {\"name\": \"b\", \"arguments\": {}} ] done", "|T:Yes|C:b|A:{}|T: done");
    check(o, "[TOOL_CALLS]look", "|T:[TOOL_CALLS]look");
    check(o, "[TOOL_CALLS][{\"name\": \"b\", \"arguments\": {}}, {\"na", "|C:b|A:{}");
}

static void llama3(void **state) {
    (void)state;
    splitter_options o = options("llama3", NULL);
    check(o, " {\"name\": \"look\", \"parameters\": {\"a\": \"b\"}}", "|C:look|A:{\"a\": \"b\"}");
    check(o, "{\"name\": \"look\", \"parameters\": {}}; {\"name\": \"look\", \"arguments\": {\"b\": 2}}",
          "|C:look|A:{}|C:look|A:{\"b\": 2}");
    check(o, "<|python_tag|>{\"name\": \"other\", \"parameters\": {}}", "|C:other|A:{}");
    /* An answer in JSON is no call unless it names a tool, and stays as it is. */
    check(o, "{\"name\": \"Bob\", \"parameters\": {}}", "|T:{\"name\": \"Bob\", \"parameters\": {}}");
    check(o, "{\"name\": \"look\", \"age\": 3}", "|T:{\"name\": \"look\", \"age\": 3}");
    check(o, "Well: {\"name\": \"look\", \"parameters\": {}}",
          "|T:Well: {\"name\": \"look\", \"parameters\": {}}");
    check(o, "<|python_tag|>print(1)", "|T:<|python_tag|>print(1)");
}

static void reasoning(void **state) {
    (void)state;
    splitter_options o = options(NULL, "think"), inside = o, both = options("hermes", "think");
    inside.begins_inside = true;
    check(o, "<think>\nhm </thin\n</think>\n\nYes. <think>", "|R:hm </thin|T:Yes. <think>");
    check(o, "\n<think></think>Yes", "|T:Yes");
    check(o, "Yes </think> no", "|T:Yes </think> no");
    check(o, " <thin", "|T: <thin");
    check(o, "<think>hm, \nhm \n", "|R:hm, \nhm");
    check(inside, "\nhm\n</think>\nYes\n", "|R:hm|T:Yes\n");
    check(inside, "hm </th", "|R:hm </th");
    check(both,
          "<think>I call <tool_call>{</think>\n<tool_call>{\"name\": \"b\", \"arguments\": {}}</tool_call>",
          "|R:I call <tool_call>{|C:b|A:{}");
    check(both, "<tool_call>{\"name\": \"b\", \"arguments\": {}}</tool_call>", "|C:b|A:{}");
    check(options(NULL, "magistral"), "[THINK]a[/THINK]b", "|R:a|T:b");
}

static void names(void **state) {
    (void)state;
    assert_ptr_equal(call_format_find("qwen3"), call_format_find("hermes"));
    assert_null(call_format_find("qwen|qwen2"));
    assert_null(call_format_find(""));
    assert_null(reasoning_format_find("none"));
    assert_ptr_equal(call_format_of("x <tool_call> y [TOOL_CALLS]"), call_format_find("hermes"));
    assert_ptr_equal(call_format_of("{\"name\": \"f\", \"parameters\": {}}"), call_format_find("llama3"));
    assert_null(call_format_of("f()"));
}

/* ---------------------------------------------------------------- JSON, byte by byte */

static bool is_json(const char *text) {
    json_scan s = {0};
    json_scan_result r = JSON_SCAN_MORE;
    for (; *text && r == JSON_SCAN_MORE; text++) r = json_scan_byte(&s, *text);
    return (r == JSON_SCAN_DONE || (r == JSON_SCAN_MORE && json_scan_ends(&s))) && !*text;
}

static void json(void **state) {
    (void)state;
    static const char *const right[] = {
        "{}",
        "[]",
        " {\"a\" : [1, -2.5e+3, \"\\u00e9\\n\", true, null, false], \"b\":{}}",
        "0",
        "\"x\"",
        "12",
        "[[[]], {\"a\":0}]"};
    static const char *const wrong[] = {"{",     "{]",    "[1,]",    "{\"a\"}", "{\"a\":1,}",
                                        "01",    "[1 2]", "\"\\x\"", "\"\n\"",  "tru ",
                                        "{1:2}", "-",     "[1.]",    "]",       "\"\\u00g0\""};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) assert_true(is_json(right[i]));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_false(is_json(wrong[i]));
    json_scan s = {0};
    for (int i = 0; i < JSON_SCAN_DEPTH; i++) assert_int_equal(json_scan_byte(&s, '['), JSON_SCAN_MORE);
    assert_int_equal(json_scan_byte(&s, '['), JSON_SCAN_BAD);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hermes), cmocka_unit_test(hermes_that_is_text), cmocka_unit_test(mistral),
        cmocka_unit_test(llama3), cmocka_unit_test(reasoning),           cmocka_unit_test(names),
        cmocka_unit_test(json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
