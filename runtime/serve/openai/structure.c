#include "structure.h"
#include "dialect.h"
#include "fields.h"
#include "gbnf.h"
#include "json_size.h"
#include "regex.h"
#include "schema.h"
#include "tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WRAPPED_DEPTH = GRAMMAR_JSON_DEPTH + 8 };

typedef enum structure_kind { ANY_TEXT, JSON_OBJECT_TEXT, SCHEMA, REGEX, CHOICE, GBNF } structure_kind;

/* What is asked for, and by which field. */
typedef struct structure {
    structure_kind kind;
    const json_t *value;
    const char *param;
} structure;

static const json_t *given(const json_t *object, const char *key) {
    const json_t *v = json_object_get(object, key);
    return json_is_null(v) ? NULL : v;
}

static bool ask(structure *s, structure_kind kind, const json_t *value, const char *param, serve_problem *p) {
    if (s->kind != ANY_TEXT)
        return serve_refuse(p, 400, param, NULL, "'%s' and '%s' side by side: an answer can keep to one",
                            s->param, param);
    *s = (structure){kind, value, param};
    return true;
}

/* ---------------------------------------------------------------- the fields */

/* A schema where its type has none, which would have no effect. */
static bool check_place(const json_t *format, const char *type, const char *key, const char *of, serve_problem *p) {
    if (!given(format, key) || !strcmp(type, of)) return true;
    return serve_refuse(p, 400, "response_format", "unsupported",
                        "'response_format.%s' belongs to the type %s, and the type is '%.40s'", key, of, type);
}

static bool read_response_format(const serve_request *r, structure *s, serve_problem *p) {
    const json_t *format = NULL, *schema = NULL;
    const char *type = "text", *param = "response_format";
    if (!serve_field_object(r->json, param, &format, p) || !format) return !p->status;
    if (!serve_field_string(format, "type", &type, p)) return false;
    if (!check_place(format, type, "schema", "json_object", p) || !check_place(format, type, "json_schema", "json_schema", p)) return false;
    if (!strcmp(type, "text")) return true;
    if (!strcmp(type, "json_object")) { /* llama.cpp's may have a schema beside it */
        const json_t *own = given(format, "schema");
        return ask(s, own ? SCHEMA : JSON_OBJECT_TEXT, own, param, p);
    }
    if (strcmp(type, "json_schema"))
        return serve_refuse(p, 400, param, NULL,
                            "'response_format' is '%.40s': text, json_object and json_schema are taken",
                            type);
    if (!serve_field_object(format, "json_schema", &schema, p)) return false;
    schema = json_object_get(schema, "schema");
    if (!json_is_object(schema) && !json_is_boolean(schema))
        return serve_refuse(p, 400, param, NULL, "'response_format.json_schema.schema' is missing");
    return ask(s, SCHEMA, schema, param, p);
}

static bool read_structured_outputs(const serve_request *r, structure *s, serve_problem *p) {
    static const struct {
        const char *key;
        structure_kind kind;
    } kinds[] = {{"json", SCHEMA},
                 {"regex", REGEX},
                 {"choice", CHOICE},
                 {"grammar", GBNF},
                 {"json_object", JSON_OBJECT_TEXT}};
    const json_t *object = NULL;
    const char *key, *param = "structured_outputs";
    json_t *value;
    if (!serve_field_object(r->json, param, &object, p)) return false;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        size_t i = 0;
        if (json_is_null(value) || json_is_false(value)) continue;
        while (i < sizeof kinds / sizeof *kinds && strcmp(kinds[i].key, key) != 0) i++;
        if (i == sizeof kinds / sizeof *kinds)
            return serve_refuse(
                p, 400, param, "unsupported",
                "'structured_outputs.%.40s' is not taken: json, regex, choice, grammar and json_object are",
                key);
        if (!ask(s, kinds[i].kind, value, param, p)) return false;
    }
    return true;
}

static bool read_single(const serve_request *r, structure *s, serve_problem *p) {
    static const struct {
        const char *key;
        structure_kind kind;
    } kinds[] = {{"guided_json", SCHEMA},  {"guided_regex", REGEX}, {"guided_choice", CHOICE},
                 {"guided_grammar", GBNF}, {"grammar", GBNF},       {"json_schema", SCHEMA}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const json_t *value = given(r->json, kinds[i].key);
        if (!value || (kinds[i].kind == GBNF && json_is_string(value) && json_string_length(value) == 0))
            continue;
        if (!ask(s, kinds[i].kind, value, kinds[i].key, p)) return false;
    }
    return true;
}

/* ---------------------------------------------------------------- to nodes; -1: *p says why, or the grammar does */

static int compile_schema(grammar *g, const structure *s, serve_problem *p) {
    json_t *read = NULL;
    const size_t n_tree =
        json_is_string(s->value) ? serve_json_tree_bytes(json_string_value(s->value), json_string_length(s->value)) : 0;
    if (n_tree > SERVE_MAX_TREE_BYTES)
        return serve_refuse(p, 413, s->param, "request_too_large",
                            "'%s' has too many values: in memory they would take %zu MiB, and %zu are allowed", s->param, n_tree >> 20,
                            SERVE_MAX_TREE_BYTES >> 20),
               -1;
    if (json_is_string(s->value)) read = json_loads(json_string_value(s->value), JSON_DECODE_ANY, NULL);
    if (json_is_string(s->value) && !read)
        return serve_refuse(p, 400, s->param, NULL, "'%s' is not JSON", s->param), -1;
    int node = schema_compile(g, read ? read : s->value, s->param, p);
    json_decref(read);
    return node;
}

static int compile_choice(grammar *g, const structure *s, serve_problem *p) {
    size_t n = json_array_size(s->value);
    grammar_text *texts = calloc(n + 1, sizeof *texts);
    if (!texts) return g->no_memory = true, -1;
    bool ok = n > 0 && n <= GRAMMAR_MAX_CHOICES;
    for (size_t i = 0; ok && i < n; i++) {
        const json_t *v = json_array_get(s->value, i);
        ok = json_string_length(v) > 0;
        if (ok) texts[i] = (grammar_text){json_string_value(v), (uint32_t)json_string_length(v)};
    }
    int node = ok ? grammar_choice(g, texts, n) : -1;
    if (!ok)
        serve_refuse(p, 400, s->param, NULL, "'%s': a choice is a list of 1 to %d texts, none empty",
                     s->param, GRAMMAR_MAX_CHOICES);
    free(texts);
    return node;
}

static int compile_text(grammar *g, const structure *s, serve_problem *p) {
    const char *text = json_string_value(s->value), *wrong;
    char why[200] = "";
    if (!text) return serve_refuse(p, 400, s->param, NULL, "'%s': a text is wanted", s->param), -1;
    size_t n = json_string_length(s->value);
    int node = s->kind == REGEX ? regex_compile(g, text, n, true, false, &wrong)
                                : gbnf_compile(g, text, n, why, sizeof why);
    if (s->kind == REGEX && wrong) snprintf(why, sizeof why, "%s", wrong);
    if (*why) serve_refuse(p, 400, s->param, "unsupported_grammar", "'%s': %.160s", s->param, why);
    return node;
}

static int compile_structure(grammar *g, const structure *s, serve_problem *p) {
    switch (s->kind) {
    case JSON_OBJECT_TEXT: return schema_any_object(g);
    case SCHEMA: return compile_schema(g, s, p);
    case CHOICE: return compile_choice(g, s, p);
    default: return compile_text(g, s, p);
    }
}

/* ---------------------------------------------------------------- calls */

static int text_node(grammar *g, const char *text) {
    return grammar_bytes(g, text, strlen(text));
}

/* {"name": "NAME", "arguments": ...} of the i-th tool, as the format writes it. */
static int compile_call(grammar *g, const serve_request *r, size_t i, const call_format *f,
                        serve_problem *p) {
    json_t *name = json_string(serve_tool_name(r, i));
    char *quoted = name ? json_dumps(name, JSON_ENCODE_ANY) : NULL, head[1500];
    json_decref(name);
    if (!quoted) return g->no_memory = true, -1;
    snprintf(head, sizeof head, "{\"name\": %s, \"%s\": ", quoted, f->arguments);
    free(quoted);
    const json_t *parameters = serve_tool_parameters(r, i);
    int arguments = parameters ? schema_compile(g, parameters, "tools", p) : schema_any_object(g);
    if (arguments < 0) return -1;
    return grammar_seq(g, (int[]){text_node(g, head), arguments, text_node(g, "}")}, 3);
}

/* Of those that share an opener it stands before all of them. */
static int compile_calls(grammar *g, const serve_request *r, const call_format *f, serve_problem *p) {
    int calls[SERVE_MAX_TOOLS], n = 0;
    for (size_t i = 0; i < json_array_size(r->tools); i++) {
        if (r->tool_name && strcmp(r->tool_name, serve_tool_name(r, i)) != 0) continue;
        calls[n] = compile_call(g, r, i, f, p);
        if (calls[n++] < 0) return -1;
    }
    int one = grammar_alt(g, calls, n), open = text_node(g, f->open_with),
        close = text_node(g, f->close_with);
    if (!f->separator) one = grammar_seq(g, (int[]){open, one, close}, 3);
    int more = grammar_seq(g, (int[]){text_node(g, f->separate_with), one}, 2);
    int all = r->parallel_calls ? grammar_seq(g, (int[]){one, grammar_repeat(g, more, 0, -1)}, 2) : one;
    return f->separator ? grammar_seq(g, (int[]){open, all, close}, 3) : all;
}

/* ---------------------------------------------------------------- all */

/* What is asked of the answer holds behind its reasoning, which is free: one that the prompt began, or, unless the prompt
 * closed one, one that the model may begin. */
static int behind_reasoning(grammar *g, const reasoning_format *f, int root, bool inside, bool closed) {
    static const grammar_range spaces[] = {{'\n', '\n'}, {' ', ' '}};
    if (closed || root < 0) return root;
    int space = grammar_repeat(g, grammar_class(g, spaces, 2, false, false), 0, 4);
    int rest = grammar_seq(g, (int[]){grammar_until(g, f->closer, strlen(f->closer)), space, root}, 3);
    if (inside) return rest;
    return grammar_alt(g, (int[]){root, grammar_seq(g, (int[]){text_node(g, f->opener), rest}, 2)}, 2);
}

static const char *name_of(const structure *s) {
    return s->kind == SCHEMA || s->kind == JSON_OBJECT_TEXT ? "the JSON schema"
           : s->kind == REGEX                               ? "the regular expression"
                                                            : "the grammar";
}

bool serve_structure_parse(serve_request *r, const serve_config *c, serve_problem *p) {
    structure s = {0};
    bool calls = r->tool_choice == SERVE_TOOLS_REQUIRED && c->dialect && c->dialect->calls, closed = false;
    if (!read_response_format(r, &s, p) || !read_structured_outputs(r, &s, p) || !read_single(r, &s, p))
        return false;
    if (r->is_chat && c->dialect) /* the answer is divided by it, too */
        r->begins_inside =
            serve_dialect_ends_inside(c->dialect, r->messages, r->n_messages, &r->chat, &closed);
    if (calls && s.kind != ANY_TEXT)
        return serve_refuse(p, 400, s.param, NULL,
                            "'%s' beside a 'tool_choice' that requires a call: an answer can keep to one",
                            s.param);
    if (!calls && s.kind == ANY_TEXT) return true;
    bool wraps = calls || (r->is_chat && c->dialect && c->dialect->reasoning);
    bool rules = s.kind == REGEX || s.kind == GBNF;
    grammar *g = r->grammar = calloc(1, sizeof *g);
    if (!g) return serve_refuse(p, 503, NULL, "out_of_memory", "no memory for the request");
    grammar_init(g, rules ? GRAMMAR_RULES_DEPTH : wraps ? WRAPPED_DEPTH : GRAMMAR_JSON_DEPTH);
    int root = calls ? compile_calls(g, r, c->dialect->calls, p) : compile_structure(g, &s, p);
    if (p->status) return false;
    if (r->is_chat && c->dialect && c->dialect->reasoning)
        root = behind_reasoning(g, c->dialect->reasoning, root, r->begins_inside, closed);
    const char *what = calls ? "the tools' JSON schemas" : name_of(&s), *param = calls ? "tools" : s.param;
    if (grammar_finish(g, root, what, param, p)) return true;
    if (p->status == 400 && !rules) p->code = "unsupported_schema";
    return false;
}

void serve_structure_free(serve_request *r) {
    if (r->grammar) grammar_free(r->grammar);
    free(r->grammar);
    r->grammar = NULL;
}
