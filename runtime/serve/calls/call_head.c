#include "call_head.h"
#include "json_scan.h"

#include <jansson.h>
#include <string.h>

typedef struct cursor {
    const char *text;
    size_t n, at;
} cursor;

static bool skip_space(cursor *c) {
    while (c->at < c->n && strchr(" \t\r\n", c->text[c->at]) && c->text[c->at]) c->at++;
    return c->at < c->n;
}

/* Over one value; MORE: it is not whole yet. The value of a number ends before the byte behind it. */
static json_scan_result skip_value(cursor *c) {
    json_scan s = {0};
    while (c->at < c->n) {
        if (json_scan_ends(&s) && strchr(",} \t\r\n", c->text[c->at]) && c->text[c->at])
            return JSON_SCAN_DONE;
        json_scan_result r = json_scan_byte(&s, c->text[c->at]);
        if (r == JSON_SCAN_BAD) return r;
        c->at++;
        if (r == JSON_SCAN_DONE) return r;
    }
    return JSON_SCAN_MORE;
}

/* A string's text into `to`; BAD also where it is too long. */
static json_scan_result read_string(cursor *c, char *to, size_t room) {
    size_t from = c->at;
    if (c->text[from] != '"') return JSON_SCAN_BAD;
    json_scan_result r = skip_value(c);
    if (r != JSON_SCAN_DONE) return r;
    json_t *v = json_loadb(c->text + from, c->at - from, JSON_DECODE_ANY, NULL);
    size_t n = json_string_length(v);
    bool fits = v && n < room;
    if (fits) memcpy(to, json_string_value(v), n + 1);
    json_decref(v);
    return fits ? JSON_SCAN_DONE : JSON_SCAN_BAD;
}

/* One member and what is around it. */
static call_head_result read_member(call_head *h, cursor *c, bool *has_name) {
    char key[64];
    json_scan_result r = read_string(c, key, sizeof key);
    if (r != JSON_SCAN_DONE) return r == JSON_SCAN_BAD ? CALL_HEAD_BAD : CALL_HEAD_MORE;
    if (!skip_space(c)) return CALL_HEAD_MORE;
    if (c->text[c->at++] != ':') return CALL_HEAD_BAD;
    if (!skip_space(c)) return CALL_HEAD_MORE;
    size_t from = c->at;
    bool is_name = !strcmp(key, "name"),
         are_arguments = !strcmp(key, "arguments") || !strcmp(key, "parameters");
    if (are_arguments) h->arguments = from;
    if (are_arguments && *has_name) return CALL_HEAD_READY;
    r = is_name ? read_string(c, h->name, sizeof h->name) : skip_value(c);
    if (r != JSON_SCAN_DONE) return r == JSON_SCAN_BAD ? CALL_HEAD_BAD : CALL_HEAD_MORE;
    *has_name |= is_name;
    if (are_arguments) h->n_arguments = c->at - from;
    return CALL_HEAD_WHOLE; /* the member is */
}

call_head_result call_head_read(call_head *h, const char *text, size_t n) {
    cursor c = {.text = text, .n = n};
    bool has_name = false;
    *h = (call_head){0};
    if (n == 0) return CALL_HEAD_MORE;
    if (text[c.at++] != '{') return CALL_HEAD_BAD;
    while (skip_space(&c)) {
        call_head_result r = read_member(h, &c, &has_name);
        if (r == CALL_HEAD_READY && !h->name[0]) return CALL_HEAD_BAD;
        if (r != CALL_HEAD_WHOLE) return r;
        if (!skip_space(&c)) return CALL_HEAD_MORE;
        char next = text[c.at++];
        if (next == '}') return has_name && h->name[0] ? CALL_HEAD_WHOLE : CALL_HEAD_BAD;
        if (next != ',') return CALL_HEAD_BAD;
    }
    return CALL_HEAD_MORE;
}
