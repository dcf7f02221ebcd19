#include "schema.h"

#include <stdlib.h>
#include <string.h>

static bool refuse(serve_problem *p, const char *what) {
    return serve_refuse(p, 400, "response_format", "unsupported_schema", "the JSON schema: %s", what);
}

static int add_node(schema *s) {
    if (s->n == SCHEMA_MAX_NODES) return -1;
    if (s->n == s->room) {
        int room = s->room ? 2 * s->room : 16;
        schema_node *nodes = realloc(s->nodes, (size_t)room * sizeof *nodes);
        if (!nodes) return -1;
        s->nodes = nodes;
        s->room = room;
    }
    s->nodes[s->n] = (schema_node){.types = SCHEMA_ANY, .other = 0, .max_items = -1, .max_length = -1};
    return s->n++;
}

static bool known_keyword(const char *key) {
    static const char *const known[] = {"type",        "properties", "required",  "additionalProperties",
                                        "items",       "enum",       "const",     "minItems",
                                        "maxItems",    "minLength",  "maxLength", "title",
                                        "description", "default",    "examples",  "$schema",
                                        "$id",         "$comment"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(key, known[i])) return true;
    return false;
}

static bool check_keywords(const json_t *text, serve_problem *p) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)text, key, value) {
        if (known_keyword(key)) continue;
        return serve_refuse(p, 400, "response_format", "unsupported_schema",
                            "the JSON schema uses '%.60s', which is not supported", key);
    }
    return true;
}

/* ---------------------------------------------------------------- types and values */

static unsigned type_of(const char *name) {
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

static bool read_types(const json_t *text, unsigned *types, serve_problem *p) {
    const json_t *type = json_object_get(text, "type");
    if (!type) return true;
    *types = 0;
    size_t n = json_is_array(type) ? json_array_size(type) : 1;
    for (size_t i = 0; i < n; i++) {
        unsigned t = type_of(json_string_value(json_is_array(type) ? json_array_get(type, i) : type));
        if (!t) return refuse(p, "an unknown 'type'");
        *types |= t;
    }
    if (*types & SCHEMA_NUMBER) *types &= ~(unsigned)SCHEMA_INTEGER;
    return *types != 0 || refuse(p, "an empty 'type'");
}

static bool add_choice(schema_node *n, const json_t *value, serve_problem *p) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    if (!text) return refuse(p, "a value that cannot be written");
    n->choices[n->n_choices++] = text;
    return true;
}

static bool read_choices(const json_t *text, schema_node *n, serve_problem *p) {
    const json_t *list = json_object_get(text, "enum"), *one = json_object_get(text, "const");
    if (!list && !one) return true;
    size_t count = list ? json_array_size(list) : 1;
    if (count == 0 || count > SCHEMA_MAX_CHOICES) return refuse(p, "'enum' must have 1 to 64 values");
    n->choices = calloc(count, sizeof *n->choices);
    if (!n->choices) return refuse(p, "no memory");
    for (size_t i = 0; i < count; i++)
        if (!add_choice(n, list ? json_array_get(list, i) : one, p)) return false;
    return true;
}

static bool read_bound(const json_t *text, const char *key, int64_t *value, serve_problem *p) {
    const json_t *v = json_object_get(text, key);
    if (!v) return true;
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > 1000000)
        return refuse(p, "a bound that is no number from 0 to 1000000");
    *value = json_integer_value(v);
    return true;
}

static bool read_bounds(const json_t *text, schema_node *n, serve_problem *p) {
    return read_bound(text, "minItems", &n->min_items, p) && read_bound(text, "maxItems", &n->max_items, p) &&
           read_bound(text, "minLength", &n->min_length, p) &&
           read_bound(text, "maxLength", &n->max_length, p) &&
           ((n->max_items < 0 || n->max_items >= n->min_items) &&
                    (n->max_length < 0 || n->max_length >= n->min_length)
                ? true
                : refuse(p, "a minimum above its maximum"));
}

/* ---------------------------------------------------------------- objects */

static int compile(schema *s, const json_t *text, int depth, serve_problem *p);

/* The node of a sub-schema: nodes may move meanwhile, so the parent is looked up afterwards. */
static bool add_property(schema *s, int at, const char *key, const json_t *value, int depth,
                         serve_problem *p) {
    int child = compile(s, value, depth + 1, p);
    if (child < 0) return false;
    json_t *name = json_string(key);
    char *quoted = name ? json_dumps(name, JSON_ENCODE_ANY) : NULL;
    json_decref(name);
    if (!quoted) return refuse(p, "no memory");
    size_t n = strlen(quoted);
    memmove(quoted, quoted + 1, n - 2);
    quoted[n - 2] = 0;
    schema_node *node = &s->nodes[at];
    node->properties[node->n_properties++] = (schema_property){quoted, n - 2, child};
    return true;
}

static bool mark_required(schema_node *n, const json_t *list, serve_problem *p) {
    if (list && !json_is_array(list)) return refuse(p, "'required' must be a list");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *key = json_string_value(json_array_get(list, i));
        size_t k = 0;
        while (key && k < n->n_properties && strcmp(n->properties[k].key, key)) k++;
        if (!key || k == n->n_properties)
            return refuse(p, "'required' names what 'properties' does not have");
        n->required |= (uint64_t)1 << k;
    }
    return true;
}

/* Unnamed properties are allowed by JSON schema unless refused; where some are named we allow those alone:
 * such answers match all the same, and end. */
static bool read_properties(schema *s, int at, const json_t *text, int depth, serve_problem *p) {
    const json_t *properties = json_object_get(text, "properties"),
                 *other = json_object_get(text, "additionalProperties");
    size_t n = json_object_size(properties);
    if (properties && !json_is_object(properties)) return refuse(p, "'properties' must be an object");
    if (n > SCHEMA_MAX_CHOICES) return refuse(p, "an object of more than 64 properties");
    s->nodes[at].properties = calloc(n + 1, sizeof(schema_property));
    if (!s->nodes[at].properties) return refuse(p, "no memory");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)properties, key, value) {
        if (!add_property(s, at, key, value, depth, p)) return false;
    }
    if (json_is_false(other) || (n && !other)) s->nodes[at].other = -1;
    if (json_is_object(other)) {
        int child = compile(s, other, depth + 1, p);
        if (child < 0) return false;
        s->nodes[at].other = child;
    }
    return mark_required(&s->nodes[at], json_object_get(text, "required"), p);
}

/* ---------------------------------------------------------------- all */

static bool read_items(schema *s, int at, const json_t *text, int depth, serve_problem *p) {
    const json_t *items = json_object_get(text, "items");
    if (!items) return true;
    int child = compile(s, items, depth + 1, p);
    if (child < 0) return false;
    s->nodes[at].items = child;
    return true;
}

/* The new node's index, or -1. */
static int compile(schema *s, const json_t *text, int depth, serve_problem *p) {
    if (json_is_true(text)) return 0;
    if (!json_is_object(text)) return refuse(p, "a schema must be an object"), -1;
    if (depth > SCHEMA_MAX_DEPTH) return refuse(p, "it is nested too deep"), -1;
    int at = add_node(s);
    if (at < 0) return refuse(p, "it is too large"), -1;
    bool ok = check_keywords(text, p) && read_types(text, &s->nodes[at].types, p) &&
              read_choices(text, &s->nodes[at], p) && read_bounds(text, &s->nodes[at], p) &&
              read_properties(s, at, text, depth, p) && read_items(s, at, text, depth, p);
    return ok ? at : -1;
}

bool schema_compile(schema *s, const json_t *text, serve_problem *p) {
    *s = (schema){0};
    if (add_node(s) < 0) return refuse(p, "no memory");
    if (text) {
        int root = compile(s, text, 0, p);
        return root == 1 || (root == 0 ? refuse(p, "it allows anything: use no response_format") : false);
    }
    int root = add_node(s);
    if (root >= 0) s->nodes[root].types = SCHEMA_OBJECT;
    return root >= 0 || refuse(p, "no memory");
}

void schema_free(schema *s) {
    for (int i = 0; i < s->n; i++) {
        schema_node *n = &s->nodes[i];
        for (size_t k = 0; k < n->n_choices; k++) free(n->choices[k]);
        for (size_t k = 0; k < n->n_properties; k++) free(n->properties[k].key);
        free(n->choices);
        free(n->properties);
    }
    free(s->nodes);
    *s = (schema){0};
}
