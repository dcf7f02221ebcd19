#include "eval_place.h"

#include <stdlib.h>
#include <string.h>

static const char *skip_space(const char *p, const char *end) {
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r')) p++;
    return p;
}

/* p: at the opening quote. */
static const char *skip_string(const char *p, const char *end) {
    for (p++; p < end && *p != '"'; p++)
        if (*p == '\\') p++;
    return p < end ? p + 1 : end;
}

/* Brackets are counted, not matched: the text has been parsed before. */
static const char *skip_value(const char *p, const char *end) {
    int depth = 0;
    for (p = skip_space(p, end); p < end;) {
        if (*p == '"') {
            p = skip_string(p, end);
        } else {
            if (*p == '{' || *p == '[') depth++;
            if ((*p == '}' || *p == ']' || *p == ',') && depth == 0) return p;
            if (*p == '}' || *p == ']') depth--;
            p++;
        }
        if (depth == 0 && (p[-1] == '"' || p[-1] == '}' || p[-1] == ']')) return p;
    }
    return end;
}

/* Past white space and one comma. */
static const char *next_member(const char *p, const char *end) {
    p = skip_space(p, end);
    return p < end && *p == ',' ? skip_space(p + 1, end) : p;
}

static const char *find_element(const char *list, const char *end, size_t index) {
    if (list >= end || *list != '[') return NULL;
    const char *p = skip_space(list + 1, end);
    while (p < end && *p != ']' && index-- > 0) p = next_member(skip_value(p, end), end);
    return p < end && *p != ']' ? p : NULL;
}

/* Keys of our schemas hold no escapes, so they are compared as they stand. */
static const char *find_member(const char *object, const char *end, const char *key, size_t n) {
    if (object >= end || *object != '{') return NULL;
    for (const char *p = skip_space(object + 1, end); p < end && *p == '"';) {
        const char *after = skip_string(p, end), *value = skip_space(after, end);
        if (value < end) value = skip_space(value + 1, end); /* ':' */
        if ((size_t)(after - p) == n + 2 && !memcmp(p + 1, key, n)) return value;
        p = next_member(skip_value(value, end), end);
    }
    return NULL;
}

const char *eval_place_find(const char *text, const char *end, const char *path) {
    const char *at = skip_space(text, end), *found;
    for (; *path; at = found) {
        if (*path == '[') {
            char *after;
            found = find_element(at, end, strtoul(path + 1, &after, 10));
            path = *after ? after + 1 : after;
        } else {
            size_t n = strcspn(path, ".[");
            found = find_member(at, end, path, n);
            path += n;
        }
        if (!found) return at;
        if (*path == '.') path++;
    }
    return at;
}

size_t eval_place_line(const char *text, const char *at) {
    size_t line = 1;
    for (const char *p = text; p < at; p++) line += *p == '\n';
    return line;
}

const char *eval_place_kind(const json_t *v) {
    switch (json_typeof(v)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a text";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_NULL: return "null";
    default: return "true or false";
    }
}
