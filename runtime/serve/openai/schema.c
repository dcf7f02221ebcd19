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
                                        "$id",         "$comment",   "$ref",      "$defs",
                                        "definitions", "anyOf",      "oneOf",     "allOf"};
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

/* ---------------------------------------------------------------- references and alternatives */

/* What "#/$defs/NAME" names; NULL = nothing. */
static const json_t *find_target(const schema *s, const char *ref) {
    static const char *const places[] = {"$defs", "definitions"};
    if (!strcmp(ref, "#")) return s->text;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        size_t n = strlen(places[i]);
        if (!strncmp(ref, "#/", 2) && !strncmp(ref + 2, places[i], n) && ref[2 + n] == '/')
            return json_object_get(json_object_get(s->text, places[i]), ref + n + 3);
    }
    return NULL;
}

/* The node of a target, which may be in the making: then it contains itself. */
static int node_of_target(schema *s, const json_t *target, int depth, serve_problem *p) {
    for (int i = 1; i < s->n; i++)
        if (s->nodes[i].text == target) return i;
    return compile(s, target, depth + 1, p);
}

static bool add_alternative(schema *s, int at, int node, serve_problem *p) {
    schema_node *n = &s->nodes[at];
    if (node < 0) return false;
    if (n->n_alternatives == SCHEMA_MAX_ALTERNATIVES) return refuse(p, "more than 8 alternatives");
    n->alternatives[n->n_alternatives++] = node;
    return true;
}

static bool read_reference(schema *s, int at, const json_t *text, int depth, serve_problem *p) {
    const char *ref = json_string_value(json_object_get(text, "$ref"));
    const json_t *target = ref ? find_target(s, ref) : NULL;
    if (!target)
        return refuse(p,
                      "a '$ref' that leads nowhere: '#', '#/$defs/NAME' and '#/definitions/NAME' are taken");
    return add_alternative(s, at, node_of_target(s, target, depth, p), p);
}

static bool read_list(schema *s, int at, const json_t *list, size_t most, int depth, serve_problem *p) {
    size_t n = json_array_size(list);
    if (n == 0 || n > most)
        return refuse(p, most == 1 ? "'allOf' must have one schema"
                                   : "'anyOf' and 'oneOf' must have 1 to 8 schemas");
    for (size_t i = 0; i < n; i++)
        if (!add_alternative(s, at, compile(s, json_array_get(list, i), depth + 1, p), p)) return false;
    return true;
}

/* Beside these nothing that decides may stand: both would have to hold. *found: whether there is one. */
static bool read_alternatives(schema *s, int at, const json_t *text, int depth, bool *found,
                              serve_problem *p) {
    static const char *const alone[] = {"$ref", "anyOf", "oneOf", "allOf"};
    static const char *const deciding[] = {"type",     "properties", "required", "additionalProperties",
                                           "items",    "enum",       "const",    "minItems",
                                           "maxItems", "minLength",  "maxLength"};
    const char *key = NULL;
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) {
        if (!json_object_get(text, alone[i])) continue;
        if (key) return refuse(p, "two of '$ref', 'anyOf', 'oneOf' and 'allOf' side by side");
        key = alone[i];
    }
    *found = key != NULL;
    for (size_t i = 0; key && i < sizeof deciding / sizeof *deciding; i++)
        if (json_object_get(text, deciding[i]))
            return refuse(p, "'$ref', 'anyOf', 'oneOf' or 'allOf' beside what decides as well");
    if (!key) return true;
    if (!strcmp(key, "$ref")) return read_reference(s, at, text, depth, p);
    return read_list(s, at, json_object_get(text, key), strcmp(key, "allOf") ? SCHEMA_MAX_ALTERNATIVES : 1,
                     depth, p);
}

static bool begins_itself(const schema_node *n, unsigned char c) {
    for (size_t i = 0; i < n->n_choices; i++)
        if ((unsigned char)n->choices[i][0] == c) return true;
    if (n->choices) return false;
    unsigned numbers = SCHEMA_NUMBER | SCHEMA_INTEGER;
    unsigned types = c == '{'                             ? SCHEMA_OBJECT
                     : c == '['                           ? SCHEMA_ARRAY
                     : c == '"'                           ? SCHEMA_STRING
                     : c == '-' || (c >= '0' && c <= '9') ? numbers
                     : c == 't' || c == 'f'               ? SCHEMA_BOOLEAN
                     : c == 'n'                           ? SCHEMA_NULL
                                                          : 0;
    return (n->types & types) != 0;
}

bool schema_begins(const schema *s, int *node, int max_depth, unsigned char byte) {
    const schema_node *n = &s->nodes[*node];
    if (n->depth > max_depth) return false;
    if (n->n_alternatives == 0) return begins_itself(n, byte);
    for (int i = 0; i < n->n_alternatives; i++) {
        int other = n->alternatives[i];
        if (!schema_begins(s, &other, max_depth, byte)) continue;
        *node = other;
        return true;
    }
    return false;
}

/* ---------------------------------------------------------------- what ends */

enum { ENDLESS = 1 << 20 };

static int larger(int a, int b) {
    return a > b ? a : b;
}

/* By what is known of the nodes that it is made of; a new schema's are endless. */
static int depth_of(const schema *s, const schema_node *n) {
    int inner = n->n_alternatives ? ENDLESS : 0;
    for (int i = 0; i < n->n_alternatives; i++) {
        int d = s->nodes[n->alternatives[i]].depth;
        if (d < inner) inner = d;
    }
    if (n->n_alternatives) return inner;
    if (n->choices || n->types & ~(unsigned)(SCHEMA_OBJECT | SCHEMA_ARRAY)) return 1;
    int object = 0, array = n->min_items > 0 ? s->nodes[n->items].depth : 0;
    for (size_t i = 0; i < n->n_properties; i++)
        if (n->required >> i & 1) object = larger(object, s->nodes[n->properties[i].node].depth);
    inner = !(n->types & SCHEMA_ARRAY)    ? object
            : !(n->types & SCHEMA_OBJECT) ? array
            : object < array              ? object
                                          : array;
    return inner >= ENDLESS ? ENDLESS : inner + 1;
}

/* The flattest value of each node, from what is flat upwards, until nothing changes. */
static void measure(schema *s) {
    for (int i = 0; i < s->n; i++) s->nodes[i].depth = ENDLESS;
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < s->n; i++) {
            int d = depth_of(s, &s->nodes[i]);
            changed |= d != s->nodes[i].depth;
            s->nodes[i].depth = d;
        }
    }
}

/* Each first byte leads to one alternative. Those that lead only to themselves were found endless before. */
static bool check_alternatives(const schema *s, serve_problem *p) {
    for (int at = 1; at < s->n; at++) {
        const schema_node *n = &s->nodes[at];
        if (n->n_alternatives < 2) continue;
        for (int c = ' '; c < 127; c++) {
            int n_take = 0;
            for (int i = 0; i < n->n_alternatives; i++) {
                int node = n->alternatives[i];
                n_take += schema_begins(s, &node, SCHEMA_MAX_DEPTH, (unsigned char)c);
            }
            if (n_take > 1)
                return refuse(p, "alternatives of 'anyOf' or 'oneOf' that begin alike, as two objects do");
        }
    }
    return true;
}

static bool check_depths(const schema *s, serve_problem *p) {
    for (int i = 0; i < s->n; i++)
        if (s->nodes[i].depth > SCHEMA_MAX_DEPTH + 2)
            return refuse(p, "a part that contains itself without end, or too deep");
    return true;
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
    bool alternatives = false;
    s->nodes[at].text = text;
    bool ok = check_keywords(text, p) && read_alternatives(s, at, text, depth, &alternatives, p);
    if (ok && !alternatives)
        ok = read_types(text, &s->nodes[at].types, p) && read_choices(text, &s->nodes[at], p) &&
             read_bounds(text, &s->nodes[at], p) && read_properties(s, at, text, depth, p) &&
             read_items(s, at, text, depth, p);
    return ok ? at : -1;
}

static bool compile_root(schema *s, const json_t *text, serve_problem *p) {
    int root = compile(s, text, 0, p);
    if (root == 0) return refuse(p, "it allows anything: use no response_format");
    if (root < 0) return false;
    measure(s);
    return check_depths(s, p) && check_alternatives(s, p);
}

bool schema_compile(schema *s, const json_t *text, serve_problem *p) {
    *s = (schema){.text = text};
    if (add_node(s) < 0) return refuse(p, "no memory");
    if (text) return compile_root(s, text, p);
    int root = add_node(s);
    if (root < 0) return refuse(p, "no memory");
    s->nodes[root].types = SCHEMA_OBJECT;
    measure(s);
    return true;
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
