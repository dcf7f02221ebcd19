#include "schema.h"
#include "schema_parts.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ALTERNATIVES = 128 };

static int compile(schema_reader *r, const json_t *text, int depth);

/* ---------------------------------------------------------------- any value */

static int any_value(schema_reader *r) {
    grammar *g = r->g;
    if (r->any >= 0) return r->any;
    int any = r->any = grammar_forward(g), object = grammar_object(g);
    int items[] = {object,
                   grammar_array(g, NULL, 0, any, 0, -1),
                   grammar_string(g, 0, -1),
                   grammar_number(g, false),
                   grammar_bytes(g, "true", 4),
                   grammar_bytes(g, "false", 5),
                   grammar_bytes(g, "null", 4)};
    bool ok = grammar_object_set(g, object, NULL, 0, 0, any) &&
              grammar_alt_set(g, any, items, sizeof items / sizeof *items);
    return ok ? any : -1;
}

/* ---------------------------------------------------------------- objects and arrays */

/* The key as JSON writes it, without quotes; freed by the caller. */
static char *quoted(const char *key) {
    json_t *name = json_string(key);
    char *text = name ? json_dumps(name, JSON_ENCODE_ANY) : NULL;
    json_decref(name);
    size_t n = text ? strlen(text) : 0;
    if (!text) return NULL;
    memmove(text, text + 1, n - 2);
    text[n - 2] = 0;
    return text;
}

static bool mark_required(const schema_reader *r, const json_t *text, const json_t *properties,
                          uint64_t *bits) {
    const json_t *list = json_object_get(text, "required");
    *bits = 0;
    if (list && !json_is_array(list)) return schema_refuse(r, "'required' must be a list");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *key = json_string_value(json_array_get(list, i)), *name;
        json_t *value;
        int k = 0, found = -1;
        json_object_foreach((json_t *)(uintptr_t)properties, name, value) {
            if (json_is_false(value)) continue;
            if (key && !strcmp(name, key)) found = k;
            k++;
        }
        if (found < 0) return schema_refuse(r, "'required' names what 'properties' does not have");
        *bits |= (uint64_t)1 << found;
    }
    return true;
}

/* {"propertyNames": {"enum": [...]}}: these, each with what all others have. */
static const json_t *named_by_enum(schema_reader *r, const json_t *text, const json_t *other) {
    const json_t *names = schema_follow(r, json_object_get(text, "propertyNames"));
    const json_t *list = json_object_get(names, "enum"), *one = json_object_get(names, "const");
    json_t *made = json_object();
    if (!r->made) r->made = json_array();
    if (!made || json_array_append_new(r->made, made) != 0) return NULL;
    if (json_object_get(text, "properties") || (!list && !one))
        return schema_refuse(r, "'propertyNames' is taken as an enum, without 'properties'"), NULL;
    for (size_t i = 0; i < (list ? json_array_size(list) : 1); i++) {
        const char *name = json_string_value(list ? json_array_get(list, i) : one);
        if (name)
            json_object_set_new(made, name, other ? json_incref((json_t *)(uintptr_t)other) : json_true());
    }
    return made;
}

/* Every property's node; keys[] are to be freed. -1: refused. */
static int read_properties(schema_reader *r, const json_t *properties, int depth, grammar_property *to,
                           char **keys) {
    const char *key;
    json_t *value;
    int n = 0;
    json_object_foreach((json_t *)(uintptr_t)properties, key, value) {
        if (json_is_false(value)) continue; /* it may not be there */
        int node = compile(r, value, depth + 1);
        if (node < 0) return -1;
        keys[n] = quoted(key);
        if (!keys[n]) return r->g->no_memory = true, -1;
        to[n] = (grammar_property){.key = {keys[n], (uint32_t)strlen(keys[n])}, .node = node};
        n++;
    }
    return n;
}

static int compile_object(schema_reader *r, const json_t *text, int depth) {
    const json_t *properties = json_object_get(text, "properties"),
                 *other = json_object_get(text, "additionalProperties");
    grammar_property of[GRAMMAR_MAX_PROPERTIES];
    char *keys[GRAMMAR_MAX_PROPERTIES] = {0};
    uint64_t required = 0;
    if (properties && !json_is_object(properties))
        return schema_refuse(r, "'properties' must be an object"), -1;
    if (json_object_get(text, "propertyNames")) {
        properties = named_by_enum(r, text, other);
        if (!properties) return -1;
        other = NULL;
    }
    if (json_object_size(properties) > GRAMMAR_MAX_PROPERTIES)
        return schema_refuse(r, "an object of more than %d properties", GRAMMAR_MAX_PROPERTIES), -1;
    int object = grammar_object(r->g), rest = -1;
    int n = read_properties(r, properties, depth, of, keys);
    bool open = json_is_object(other) || json_is_true(other) || (!other && json_object_size(properties) == 0),
         ok = n >= 0;
    if (ok && open) {
        rest = json_is_object(other) ? compile(r, other, depth + 1) : any_value(r);
        ok = rest >= 0;
    }
    ok = ok && mark_required(r, text, properties, &required) &&
         grammar_object_set(r->g, object, of, n, required, rest);
    for (int i = 0; i < GRAMMAR_MAX_PROPERTIES; i++) free(keys[i]);
    return ok ? object : -1;
}

static int compile_array(schema_reader *r, const json_t *text, int depth) {
    const json_t *items = json_object_get(text, "items"), *prefix = json_object_get(text, "prefixItems");
    int nodes[MAX_ALTERNATIVES], n = (int)json_array_size(prefix), rest = -1;
    int64_t min = 0, max = -1;
    if (!schema_read_bound(r, text, "minItems", &min) || !schema_read_bound(r, text, "maxItems", &max))
        return -1;
    if (prefix && !json_is_array(prefix)) return schema_refuse(r, "'prefixItems' must be a list"), -1;
    if (json_array_size(prefix) > MAX_ALTERNATIVES)
        return schema_refuse(r, "more than %d 'prefixItems'", MAX_ALTERNATIVES), -1;
    for (int i = 0; i < n; i++) {
        nodes[i] = compile(r, json_array_get(prefix, (size_t)i), depth + 1);
        if (nodes[i] < 0) return -1;
    }
    if (json_is_false(items) && (max < 0 || max > n)) max = n;
    if (max >= 0 && max < min) return schema_refuse(r, "a minimum above its maximum"), -1;
    if (!json_is_false(items)) {
        rest = items ? compile(r, items, depth + 1) : any_value(r);
        if (rest < 0) return -1;
    }
    return grammar_array(r->g, nodes, n, rest, min, max);
}

/* ---------------------------------------------------------------- one schema without joins */

static int compile_types(schema_reader *r, const json_t *text, int depth) {
    unsigned types;
    int nodes[8], n = 0;
    if (!schema_read_types(r, text, &types)) return -1;
    if (json_object_get(text, "enum") || json_object_get(text, "const"))
        return schema_choices(r, text, types);
    for (unsigned type = 1; type <= SCHEMA_NULL; type <<= 1) {
        if (!(types & type)) continue;
        switch (type) {
        case SCHEMA_OBJECT: nodes[n] = compile_object(r, text, depth); break;
        case SCHEMA_ARRAY: nodes[n] = compile_array(r, text, depth); break;
        case SCHEMA_STRING: nodes[n] = schema_string(r, text); break;
        case SCHEMA_NUMBER: nodes[n] = schema_number(r, text, false); break;
        case SCHEMA_INTEGER: nodes[n] = schema_number(r, text, true); break;
        case SCHEMA_BOOLEAN:
            nodes[n++] = grammar_bytes(r->g, "true", 4);
            nodes[n] = grammar_bytes(r->g, "false", 5);
            break;
        default: nodes[n] = grammar_bytes(r->g, "null", 4);
        }
        if (nodes[n++] < 0) return -1;
    }
    return n == 1 ? nodes[0] : grammar_alt(r->g, nodes, n);
}

/* ---------------------------------------------------------------- references and joins */

/* The node of a schema that others may refer to, which may be in the making: then it contains itself. */
static int node_of_target(schema_reader *r, const json_t *text, int depth) {
    for (size_t i = 0; i < r->n_targets; i++)
        if (r->targets[i].text == text) return r->targets[i].node;
    if (r->n_targets == r->targets_room) {
        size_t room = r->targets_room ? 2 * r->targets_room : 16;
        schema_target *targets = realloc(r->targets, room * sizeof *targets);
        if (!targets) return r->g->no_memory = true, -1;
        r->targets = targets;
        r->targets_room = room;
    }
    int forward = grammar_forward(r->g);
    r->targets[r->n_targets++] = (schema_target){text, forward};
    int node = compile(r, text, depth + 1);
    return node >= 0 && grammar_alt_set(r->g, forward, &node, 1) ? forward : -1;
}

static bool check_one_of(const schema_reader *r, const json_t *list) {
    for (size_t i = 0; i < json_array_size(list); i++)
        for (size_t k = 0; k < i; k++)
            if (!schema_apart(r, json_array_get(list, i), json_array_get(list, k)))
                return schema_refuse(r,
                                     "'oneOf' whose alternatives %zu and %zu may both match: give 'anyOf', "
                                     "or a property that tells them apart",
                                     k, i);
    return true;
}

/* Alternatives, each of which has to match together with `base` (NULL = alone). */
static int compile_alternatives(schema_reader *r, const json_t *list, const json_t *base, bool one,
                                int depth) {
    int nodes[MAX_ALTERNATIVES];
    size_t n = json_array_size(list);
    if (n == 0 || n > MAX_ALTERNATIVES)
        return schema_refuse(r, "'anyOf' and 'oneOf' must have 1 to %d schemas", MAX_ALTERNATIVES), -1;
    if (one && !check_one_of(r, list)) return -1;
    for (size_t i = 0; i < n; i++) {
        const json_t *text = json_array_get(list, i);
        if (base && !(text = schema_follow(r, text))) return -1;
        if (base && !(text = schema_merge(r, base, text))) return -1;
        nodes[i] = compile(r, text, depth + 1);
        if (nodes[i] < 0) return -1;
    }
    return grammar_alt(r->g, nodes, (int)n);
}

/* Whether the schema narrows what matches besides its joins. */
static bool decides(const json_t *text) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)text, key, value) if (schema_is_deciding(key)) return true;
    return false;
}

/* What the schema says besides a join, as a schema of its own. */
static const json_t *without(schema_reader *r, const json_t *text, const char *join) {
    json_t *rest = json_copy((json_t *)(uintptr_t)text);
    if (!r->made) r->made = json_array();
    json_object_del(rest, join);
    return json_array_append_new(r->made, rest) == 0 ? rest : NULL;
}

static const json_t *merge_all(schema_reader *r, const json_t *list, const json_t *base) {
    size_t n = json_array_size(list);
    if (n == 0 || n > MAX_ALTERNATIVES)
        return schema_refuse(r, "'allOf' must have 1 to %d schemas", MAX_ALTERNATIVES), NULL;
    for (size_t i = 0; base && i < n; i++) {
        const json_t *other = schema_follow(r, json_array_get(list, i));
        if (other && !json_is_true(other) && !json_is_object(other))
            return schema_refuse(r, "a schema must be an object"), NULL;
        base = other ? schema_merge(r, base, other) : NULL;
    }
    return base;
}

static int compile_joins(schema_reader *r, const json_t *text, int depth) {
    const json_t *ref = json_object_get(text, "$ref"), *all = json_object_get(text, "allOf");
    const json_t *any = json_object_get(text, "anyOf"), *one = json_object_get(text, "oneOf"), *base = NULL;
    bool single = (ref != NULL) + (all != NULL) + (any != NULL) + (one != NULL) == 1 && !decides(text);
    if (ref) {
        const json_t *target = schema_follow(r, ref ? text : NULL);
        if (!target) return -1;
        if (single) return node_of_target(r, target, depth);
        base = without(r, text, "$ref");
        base = base ? schema_merge(r, base, target) : NULL;
        return base ? compile(r, base, depth + 1) : -1;
    }
    if (all && single && json_array_size(all) == 1) return compile(r, json_array_get(all, 0), depth + 1);
    if (all) {
        base = without(r, text, "allOf");
        base = base ? merge_all(r, all, base) : NULL;
        return base ? compile(r, base, depth + 1) : -1;
    }
    if (any && one) return schema_refuse(r, "'anyOf' and 'oneOf' side by side"), -1;
    if (!single && !(base = without(r, text, any ? "anyOf" : "oneOf"))) return -1;
    return compile_alternatives(r, any ? any : one, base, one != NULL, depth);
}

/* ---------------------------------------------------------------- all */

/* The schema's node, or -1. */
static int compile(schema_reader *r, const json_t *text, int depth) {
    if (json_is_true(text)) return any_value(r);
    if (!json_is_object(text)) return schema_refuse(r, "a schema must be an object"), -1;
    if (depth > 2 * SCHEMA_MAX_DEPTH) return schema_refuse(r, "it is nested too deep"), -1;
    if (!schema_check_keywords(r, text)) return -1;
    bool joins = json_object_get(text, "$ref") || json_object_get(text, "allOf") ||
                 json_object_get(text, "anyOf") || json_object_get(text, "oneOf");
    if (joins) return compile_joins(r, text, depth);
    return decides(text) ? compile_types(r, text, depth) : any_value(r);
}

int schema_compile(grammar *g, const json_t *text, const char *param, serve_problem *p) {
    schema_reader r = {.g = g, .root = text, .param = param, .problem = p, .any = -1};
    int node = -1;
    if (json_is_true(text))
        schema_refuse(&r, "it allows anything: use no schema");
    else
        node = node_of_target(&r, text, 0);
    json_decref(r.made);
    free(r.targets);
    return node;
}

int schema_any_object(grammar *g) {
    schema_reader r = {.g = g, .any = -1};
    int any = any_value(&r), object = grammar_object(g);
    return any >= 0 && grammar_object_set(g, object, NULL, 0, 0, any) ? object : -1;
}
