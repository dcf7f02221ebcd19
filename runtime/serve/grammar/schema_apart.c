/* schema_apart.c - oneOf: whether a value that is written for one alternative can match another. */
#include "schema_parts.h"

#include <string.h>

static unsigned types_of(const schema_reader *r, const json_t *text) {
    unsigned types = SCHEMA_ANY;
    const json_t *list = json_object_get(text, "enum"), *one = json_object_get(text, "const");
    serve_problem none;
    schema_reader quiet = *r;
    quiet.problem = &none;
    if (!json_object_get(text, "type") && (list || one)) {
        types = one ? schema_type_of_value(one) : 0;
        for (size_t i = 0; i < json_array_size(list); i++)
            types |= schema_type_of_value(json_array_get(list, i));
    } else {
        schema_read_types(&quiet, text, &types);
    }
    if (types & SCHEMA_NUMBER) types |= SCHEMA_INTEGER;
    return types;
}

static bool is_value_of(const json_t *text, const json_t *value) {
    const json_t *list = json_object_get(text, "enum"), *one = json_object_get(text, "const");
    if (one) return json_equal(one, value);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), value)) return true;
    return false;
}

static bool has_values(const json_t *text) {
    return json_object_get(text, "enum") || json_object_get(text, "const");
}

static bool values_apart(const json_t *a, const json_t *b) {
    const json_t *list = json_object_get(a, "enum"), *one = json_object_get(a, "const");
    if (!has_values(a) || !has_values(b)) return false;
    if (one) return !is_value_of(b, one);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (is_value_of(b, json_array_get(list, i))) return false;
    return true;
}

static bool requires(const json_t *text, const char *key) {
    const json_t *list = json_object_get(text, "required");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (name && !strcmp(name, key)) return true;
    }
    return false;
}

/* A property that both must have, with values of its own in each: pydantic's discriminator. */
static bool told_by_property(const schema_reader *r, const json_t *a, const json_t *b) {
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(a, "properties"), key, value) {
        const json_t *other = json_object_get(json_object_get(b, "properties"), key);
        if (!other || !requires(a, key) || !requires(b, key)) continue;
        const json_t *x = schema_follow(r, value), *y = schema_follow(r, other);
        if (x && y && values_apart(x, y)) return true;
    }
    return false;
}

/* Whether `b` must have what is never written for `a`. */
static bool wants_more(const json_t *b, const json_t *a) {
    const json_t *list = json_object_get(b, "required"), *named = json_object_get(a, "properties");
    const json_t *others = json_object_get(a, "additionalProperties");
    if (!named || (others && !json_is_false(others))) return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *key = json_string_value(json_array_get(list, i));
        if (key && !json_object_get(named, key)) return true;
    }
    return false;
}

bool schema_apart(const schema_reader *r, const json_t *a, const json_t *b) {
    static const char *const joining[] = {"anyOf", "oneOf", "allOf"};
    a = schema_follow(r, a);
    b = schema_follow(r, b);
    if (!json_is_object(a) || !json_is_object(b)) return false;
    for (size_t i = 0; i < sizeof joining / sizeof *joining; i++)
        if (json_object_get(a, joining[i]) || json_object_get(b, joining[i])) return false;
    if (!(types_of(r, a) & types_of(r, b)) || values_apart(a, b)) return true;
    if ((types_of(r, a) & types_of(r, b)) != SCHEMA_OBJECT) return false;
    return told_by_property(r, a, b) || (wants_more(a, b) && wants_more(b, a));
}
