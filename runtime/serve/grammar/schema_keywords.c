#include "schema_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool schema_refuse(const schema_reader *r, const char *format, ...) {
    char what[300];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    return serve_refuse(r->problem, 400, r->param, "unsupported_schema", "the JSON schema: %s", what);
}

static const char *const deciding[] = {"type",
                                       "properties",
                                       "required",
                                       "additionalProperties",
                                       "propertyNames",
                                       "items",
                                       "prefixItems",
                                       "enum",
                                       "const",
                                       "minItems",
                                       "maxItems",
                                       "minLength",
                                       "maxLength",
                                       "pattern",
                                       "format",
                                       "minimum",
                                       "maximum",
                                       "exclusiveMinimum",
                                       "exclusiveMaximum",
                                       "nullable",
                                       NULL};
static const char *const joining[] = {"$ref", "anyOf", "oneOf", "allOf", NULL};
/* discriminator: OpenAPI's, which names the property that tells alternatives apart. */
static const char *const describing[] = {
    "title", "description", "default",       "examples",   "example",  "$schema",   "$id", "$comment",
    "$defs", "definitions", "discriminator", "deprecated", "readOnly", "writeOnly", NULL};

static bool is_in(const char *const *list, const char *key) {
    while (*list && strcmp(*list, key)) list++;
    return *list != NULL;
}

bool schema_is_deciding(const char *key) {
    return is_in(deciding, key);
}

bool schema_check_keywords(const schema_reader *r, const json_t *text) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)text, key, value) {
        if (is_in(deciding, key) || is_in(joining, key) || is_in(describing, key)) continue;
        if (!strcmp(key, "uniqueItems") && json_is_false(value)) continue;
        return schema_refuse(r, "it uses '%.60s', which is not supported", key);
    }
    return true;
}

static unsigned type_named(const char *name) {
    static const struct {
        const char *name;
        unsigned type;
    } types[] = {{"object", SCHEMA_OBJECT}, {"array", SCHEMA_ARRAY},     {"string", SCHEMA_STRING},
                 {"number", SCHEMA_NUMBER}, {"integer", SCHEMA_INTEGER}, {"boolean", SCHEMA_BOOLEAN},
                 {"null", SCHEMA_NULL}};
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
        if (!strcmp(name, types[i].name)) return types[i].type;
    return 0;
}

bool schema_read_types(const schema_reader *r, const json_t *text, unsigned *types) {
    const json_t *type = json_object_get(text, "type");
    *types = SCHEMA_ANY;
    if (type) *types = 0;
    size_t n = json_is_array(type) ? json_array_size(type) : type ? 1 : 0;
    for (size_t i = 0; i < n; i++) {
        unsigned t = type_named(json_string_value(json_is_array(type) ? json_array_get(type, i) : type));
        if (!t) return schema_refuse(r, "an unknown 'type'");
        *types |= t;
    }
    if (*types & SCHEMA_NUMBER) *types &= ~(unsigned)SCHEMA_INTEGER;
    if (json_is_true(json_object_get(text, "nullable"))) *types |= SCHEMA_NULL;
    return *types != 0 || schema_refuse(r, "an empty 'type'");
}

unsigned schema_type_of_value(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_OBJECT: return SCHEMA_OBJECT;
    case JSON_ARRAY: return SCHEMA_ARRAY;
    case JSON_STRING: return SCHEMA_STRING;
    case JSON_INTEGER: return SCHEMA_INTEGER;
    case JSON_REAL: return SCHEMA_NUMBER;
    case JSON_NULL: return SCHEMA_NULL;
    default: return SCHEMA_BOOLEAN;
    }
}

bool schema_read_bound(const schema_reader *r, const json_t *text, const char *key, int64_t *value) {
    const json_t *v = json_object_get(text, key);
    if (!v) return true;
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > 1000000)
        return schema_refuse(r, "a bound that is no number from 0 to 1000000");
    *value = json_integer_value(v);
    return true;
}
