/* schema_merge.c - two schemas that both have to match, as one. */
#include "schema_parts.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- references */

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* A step of a JSON pointer (RFC 6901) as it stands in a URI's fragment, into `name`. NULL: it is too long. */
static const char *read_step(const char *at, char *name, size_t room) {
    size_t n = 0;
    for (; *at && *at != '/'; at++) {
        char c = *at;
        if (c == '%' && hex_digit(at[1]) >= 0 && hex_digit(at[2]) >= 0) {
            c = (char)(hex_digit(at[1]) * 16 + hex_digit(at[2]));
            at += 2;
        }
        if (c == '~' && (at[1] == '0' || at[1] == '1')) c = *++at == '0' ? '~' : '/';
        if (n + 1 == room) return NULL;
        name[n++] = c;
    }
    name[n] = 0;
    return at;
}

/* What "#/$defs/NAME" names; NULL = nothing. */
static const json_t *find_target(const json_t *root, const char *ref) {
    char name[256];
    if (*ref++ != '#') return NULL;
    while (root && *ref == '/') {
        ref = read_step(ref + 1, name, sizeof name);
        if (!ref) return NULL;
        root =
            json_is_array(root) ? json_array_get(root, strtoul(name, NULL, 10)) : json_object_get(root, name);
    }
    return *ref ? NULL : root;
}

const json_t *schema_follow(const schema_reader *r, const json_t *text) {
    const json_t *ref;
    for (int i = 0; (ref = json_object_get(text, "$ref")); i++) {
        const char *name = json_string_value(ref);
        text = name && i < SCHEMA_MAX_DEPTH ? find_target(r->root, name) : NULL;
        if (!text)
            return schema_refuse(r,
                                 "a '$ref' that leads nowhere: '#', '#/$defs/NAME' and the like are taken"),
                   NULL;
        if (json_is_true(text)) return text;
        if (!json_is_object(text)) return schema_refuse(r, "a '$ref' to what is no schema"), NULL;
    }
    return text;
}

/* ---------------------------------------------------------------- single keywords */

/* Both have to match: {"allOf": [a, b]}, which is merged when it is looked at. */
static json_t *both(const json_t *a, const json_t *b) {
    if (json_is_false(a) || json_is_false(b)) return json_false();
    if (json_is_true(a)) return json_incref((json_t *)(uintptr_t)b);
    if (json_is_true(b)) return json_incref((json_t *)(uintptr_t)a);
    return json_pack("{s:[O, O]}", "allOf", a, b);
}

static json_t *as_list(const json_t *v) {
    return json_is_array(v) ? json_incref((json_t *)(uintptr_t)v) : json_pack("[O]", v);
}

static bool has_value(const json_t *list, const json_t *value) {
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), value)) return true;
    return false;
}

/* Values of both lists; a number is an integer, too. */
static json_t *common(const json_t *a, const json_t *b, bool are_types) {
    json_t *x = as_list(a), *y = as_list(b), *out = json_array(), *integer = json_string("integer"),
           *number = json_string("number");
    for (size_t i = 0; i < json_array_size(x); i++) {
        json_t *v = json_array_get(x, i);
        bool same = has_value(y, v);
        bool is_integer = are_types && json_equal(v, integer), is_number = are_types && json_equal(v, number);
        if (same || (is_integer && has_value(y, number)))
            json_array_append(out, v);
        else if (is_number && has_value(y, integer))
            json_array_append(out, integer);
    }
    json_decref(x);
    json_decref(y);
    json_decref(integer);
    json_decref(number);
    return out;
}

static json_t *together(const json_t *a, const json_t *b) {
    json_t *out = json_copy((json_t *)(uintptr_t)a);
    for (size_t i = 0; i < json_array_size(b); i++)
        if (!has_value(out, json_array_get(b, i))) json_array_append(out, json_array_get(b, i));
    return out;
}

static json_t *stricter(const json_t *a, const json_t *b, bool larger) {
    bool first =
        larger ? json_number_value(a) >= json_number_value(b) : json_number_value(a) <= json_number_value(b);
    return json_incref((json_t *)(uintptr_t)(first ? a : b));
}

/* ---------------------------------------------------------------- properties */

/* What a schema says of a property: its own, or that of all others; NULL = nothing. */
static const json_t *says_of(const json_t *text, const char *key) {
    const json_t *own = json_object_get(json_object_get(text, "properties"), key);
    return own ? own : json_object_get(text, "additionalProperties");
}

static void add_properties(json_t *to, const json_t *a, const json_t *b) {
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(a, "properties"), key, value) {
        const json_t *other = says_of(b, key);
        json_object_set_new(to, key, other ? both(value, other) : json_incref(value));
    }
}

static bool merge_objects(json_t *out, const json_t *a, const json_t *b) {
    const json_t *x = json_object_get(a, "additionalProperties"),
                 *y = json_object_get(b, "additionalProperties");
    if (json_object_get(a, "properties") || json_object_get(b, "properties")) {
        json_t *all = json_object(), *of_b = json_object();
        add_properties(all, a, b);
        add_properties(of_b, b, a);
        json_object_update_missing(all, of_b);
        json_decref(of_b);
        json_object_set_new(out, "properties", all);
    }
    if (x && y) json_object_set_new(out, "additionalProperties", both(x, y));
    return true;
}

/* ---------------------------------------------------------------- all */

static bool is_any_of(const char *key, const char *const *list) {
    while (*list && strcmp(*list, key)) list++;
    return *list != NULL;
}

/* The key is in both. */
static bool merge_key(const schema_reader *r, json_t *out, const char *key, const json_t *a,
                      const json_t *b) {
    static const char *const lower[] = {"minItems", "minLength", "minimum", "exclusiveMinimum", NULL};
    static const char *const upper[] = {"maxItems", "maxLength", "maximum", "exclusiveMaximum", NULL};
    static const char *const done[] = {"properties", "additionalProperties", NULL};
    json_t *value = NULL;
    if (is_any_of(key, done) || json_equal(a, b)) return true;
    if (!strcmp(key, "type") || !strcmp(key, "enum"))
        value = common(a, b, key[0] == 't');
    else if (!strcmp(key, "required") || !strcmp(key, "allOf"))
        value = together(a, b);
    else if (!strcmp(key, "items"))
        value = both(a, b);
    else if (is_any_of(key, lower) || is_any_of(key, upper))
        value = stricter(a, b, is_any_of(key, lower));
    else if (!strcmp(key, "nullable"))
        value = json_boolean(json_is_true(a) && json_is_true(b));
    else if (!schema_is_deciding(key) && key[0] != '$' && strcmp(key, "anyOf") != 0 &&
             strcmp(key, "oneOf") != 0)
        return true; /* it only describes */
    if (!value)
        return schema_refuse(r, "two schemas that both have to match, each with its own '%.40s'", key);
    if (json_is_array(value) && json_array_size(value) == 0) {
        json_decref(value);
        return schema_refuse(r, "two schemas that both have to match have no '%.40s' in common", key);
    }
    return json_object_set_new(out, key, value) == 0;
}

/* A copy with "const" as an enum of one. */
static json_t *copy_of(const json_t *text) {
    json_t *out = json_copy((json_t *)(uintptr_t)text), *one = json_object_get(out, "const");
    if (one && !json_object_get(out, "enum")) json_object_set_new(out, "enum", json_pack("[O]", one));
    if (one) json_object_del(out, "const");
    return out;
}

const json_t *schema_merge(schema_reader *r, const json_t *a, const json_t *b) {
    if (json_is_true(a)) return b;
    if (json_is_true(b)) return a;
    json_t *out = copy_of(a), *other = copy_of(b);
    bool ok = out && other && (r->made || (r->made = json_array())) &&
              json_array_append_new(r->made, out) == 0 && merge_objects(out, a, b);
    if (!ok) schema_refuse(r, "no memory");
    const char *key;
    json_t *value;
    json_object_foreach(other, key, value) {
        const json_t *had = json_object_get(out, key);
        if (!ok) break;
        ok = had && strcmp(key, "properties") != 0 ? merge_key(r, out, key, had, value)
                                                   : had || json_object_set(out, key, value) == 0;
    }
    json_decref(other);
    return ok ? out : NULL;
}
