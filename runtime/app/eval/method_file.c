#define _GNU_SOURCE
#include "method_file.h"
#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

/* The document as a tree (libyaml builds it without recursion, from 64 KB at most); it is followed to a fixed
 * depth: list, line, sweep, values. */
typedef struct reader {
    method_list *list;
    yaml_document_t document;
    const char *name;
    sac_error *err;
} reader;

/* All refusals: "methods.yaml:3: ..." */
__attribute__((format(printf, 3, 4))) static sac_status refuse(reader *r, const yaml_node_t *at,
                                                               const char *format, ...) {
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return sac_fail(r->err, SAC_BAD_CONFIG, "%s:%zu: %s", r->name, at->start_mark.line + 1, text);
}

static const yaml_node_t *node(reader *r, int id) {
    return yaml_document_get_node(&r->document, id);
}

/* A scalar's text, which holds no zero byte and no white space unless it is a name. */
static sac_status get_text(reader *r, const yaml_node_t *n, const char *key, bool words, char **out) {
    if (n->type != YAML_SCALAR_NODE) return refuse(r, n, "%s: expected a text", key);
    const char *text = (const char *)n->data.scalar.value;
    if (strlen(text) != n->data.scalar.length) return refuse(r, n, "%s: the text holds a zero byte", key);
    if (!*text) return refuse(r, n, "%s: the value is missing", key);
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20) return refuse(r, n, "%s: the text holds a control character", key);
    if (!words && text[strcspn(text, " \t\r\n")])
        return refuse(r, n, "%s: '%.60s' holds white space", key, text);
    *out = strdup(text);
    return *out ? SAC_OK : sac_fail_no_memory(r->err);
}

/* What a map of the file may hold. */
typedef struct fields {
    method_line line;
    const yaml_node_t *over, *sweep;
} fields;

static sac_status read_pair(reader *r, fields *f, const yaml_node_t *key, const yaml_node_t *value) {
    if (key->type != YAML_SCALAR_NODE) return refuse(r, key, "a key must be a text");
    const char *k = (const char *)key->data.scalar.value;
    int part = method_part_find(k, strlen(k));
    const yaml_node_t **list = !strcmp(k, "over") ? &f->over : !strcmp(k, "sweep") ? &f->sweep : NULL;
    if (list && *list) return refuse(r, key, "%s is given twice", k);
    if (list) {
        *list = value;
        return SAC_OK;
    }
    bool is_name = !strcmp(k, "name");
    if (!is_name && part < 0)
        return refuse(r, key, "unknown key '%.60s'; a line has name, prefill, kv, decode, rope and reduce",
                      k);
    char **field = is_name ? &f->line.name : &f->line.part[part];
    return *field ? refuse(r, key, "%s is given twice", k) : get_text(r, value, k, is_name, field);
}

static sac_status read_map(reader *r, const yaml_node_t *map, fields *f) {
    if (map->type != YAML_MAPPING_NODE)
        return refuse(r, map, "expected a method line as {prefill: ..., kv: ..., decode: ...}");
    for (const yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++)
        SAC_TRY(read_pair(r, f, node(r, p->key), node(r, p->value)));
    return SAC_OK;
}

/* The file's line in front of what a callee wrote. */
static sac_status located(reader *r, const yaml_node_t *at, sac_status st) {
    if (st == SAC_OK || st == SAC_NO_MEMORY) return st;
    return sac_fail_prefix(r->err, r->err->status, "%s:%zu", r->name, at->start_mark.line + 1);
}

static sac_status find_knob(reader *r, const yaml_node_t *map, method_sweep *s) {
    size_t stars = 0;
    for (int i = 0; i < METHOD_PARTS; i++)
        for (const char *p = s->part[i]; p && (p = strchr(p, '*')); p++) stars++, s->knob = i;
    return stars == 1
               ? SAC_OK
               : refuse(r, map, "a sweep has one '*' in its lines, where its values go; found %zu", stars);
}

__attribute__((format(printf, 1, 2))) static char *format(const char *how, ...) {
    char *text;
    va_list args;
    va_start(args, how);
    int n = vasprintf(&text, how, args);
    va_end(args);
    return n < 0 ? NULL : text;
}

/* A line for value i of the sweep. */
static sac_status add_point(reader *r, const yaml_node_t *at, method_sweep *s, size_t i) {
    method_line line = {0};
    const char *value = s->over[i], *knob = s->part[s->knob], *star = strchr(knob, '*');
    bool ok = true;
    for (int k = 0; k < METHOD_PARTS && ok; k++)
        if (s->part[k] && k != s->knob) ok = (line.part[k] = strdup(s->part[k])) != NULL;
    ok = ok && (line.part[s->knob] = format("%.*s%s%s", (int)(star - knob), knob, value, star + 1));
    ok = ok && (!s->name || (line.name = format("%s %s", s->name, value)));
    if (!ok) {
        method_line_free(&line);
        return sac_fail_no_memory(r->err);
    }
    return located(r, at, method_list_add(r->list, &line, true, &s->lines[i], r->err));
}

static sac_status read_values(reader *r, const yaml_node_t *list, method_sweep *s) {
    if (list->type != YAML_SEQUENCE_NODE) return refuse(r, list, "over: expected a list of values");
    const yaml_node_item_t *items = list->data.sequence.items.start;
    size_t n = (size_t)(list->data.sequence.items.top - items);
    if (n < 2 || n > METHOD_LIST_MAX_LINES) return refuse(r, list, "over: expected two values or more");
    s->over = calloc(n, sizeof *s->over);
    s->lines = calloc(n, sizeof *s->lines);
    if (!s->over || !s->lines) return sac_fail_no_memory(r->err);
    for (size_t i = 0; i < n; i++) {
        const yaml_node_t *value = node(r, items[i]);
        SAC_TRY(get_text(r, value, "over", false, &s->over[i]));
        s->n = i + 1;
        for (size_t k = 0; k < i; k++)
            if (!strcmp(s->over[i], s->over[k]))
                return refuse(r, value, "over: %.60s is there twice", s->over[i]);
        SAC_TRY(add_point(r, value, s, i));
    }
    return SAC_OK;
}

static sac_status read_sweep(reader *r, const yaml_node_t *map) {
    method_sweep *more = realloc(r->list->sweeps, (r->list->n_sweeps + 1) * sizeof *more);
    if (!more) return sac_fail_no_memory(r->err);
    r->list->sweeps = more;
    method_sweep *s = &more[r->list->n_sweeps++];
    fields f = {0};
    sac_status st = read_map(r, map, &f);
    *s = (method_sweep){.name = f.line.name};
    memcpy(s->part, f.line.part, sizeof s->part);
    if (st != SAC_OK) return st;
    if (f.sweep) return refuse(r, map, "a sweep holds no other");
    if (!f.over) return refuse(r, map, "a sweep needs its values: over: [...]");
    SAC_TRY(find_knob(r, map, s));
    SAC_TRY(read_values(r, f.over, s));
    if (!s->name) s->name = method_line_text(s->part);
    return s->name ? SAC_OK : sac_fail_no_memory(r->err);
}

static sac_status read_item(reader *r, const yaml_node_t *map) {
    fields f = {0};
    size_t at;
    sac_status st = read_map(r, map, &f);
    bool empty = !f.line.name;
    for (int i = 0; i < METHOD_PARTS; i++) empty = empty && !f.line.part[i];
    if (st == SAC_OK && f.over) st = refuse(r, map, "over belongs into a sweep: {...}");
    if (st == SAC_OK && f.sweep && !empty)
        st = refuse(r, map, "a sweep stands alone in its item of the list");
    if (st == SAC_OK && !f.sweep && empty) st = refuse(r, map, "the line is empty");
    if (st == SAC_OK && !f.sweep)
        return located(r, map, method_list_add(r->list, &f.line, false, &at, r->err));
    method_line_free(&f.line);
    return st == SAC_OK ? read_sweep(r, f.sweep) : st;
}

static sac_status read_document(reader *r) {
    const yaml_node_t *root = yaml_document_get_root_node(&r->document);
    if (!root) return sac_fail(r->err, SAC_BAD_CONFIG, "%s: holds no method line", r->name);
    if (root->type != YAML_SEQUENCE_NODE) return refuse(r, root, "expected a list of method lines");
    const yaml_node_item_t *end = root->data.sequence.items.top;
    for (const yaml_node_item_t *i = root->data.sequence.items.start; i < end; i++)
        SAC_TRY(read_item(r, node(r, *i)));
    return SAC_OK;
}

static sac_status check_end(reader *r, yaml_parser_t *parser) {
    bool loaded = yaml_parser_load(parser, &r->document);
    const yaml_node_t *more = loaded ? yaml_document_get_root_node(&r->document) : NULL;
    sac_status st = SAC_OK;
    if (!loaded) st = sac_fail(r->err, SAC_BAD_CONFIG, "%s: what follows the list is not YAML", r->name);
    if (more) st = refuse(r, more, "a second document starts here");
    if (loaded) yaml_document_delete(&r->document);
    return st;
}

sac_status method_file_parse(method_list *list, const char *text, size_t n_bytes, const char *name,
                             sac_error *err) {
    reader r = {.list = list, .name = name, .err = err};
    yaml_parser_t parser;
    if (n_bytes > METHOD_LIST_MAX_BYTES)
        return sac_fail(err, SAC_BAD_CONFIG, "%s: larger than %zu bytes", name, METHOD_LIST_MAX_BYTES);
    if (!yaml_parser_initialize(&parser)) return sac_fail_no_memory(err);
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, n_bytes);
    sac_status st;
    if (yaml_parser_load(&parser, &r.document)) {
        st = read_document(&r);
        yaml_document_delete(&r.document);
        if (st == SAC_OK) st = check_end(&r, &parser);
    } else if (parser.error == YAML_MEMORY_ERROR) {
        st = sac_fail_no_memory(err);
    } else {
        st = sac_fail(err, SAC_BAD_CONFIG, "%s:%zu: not YAML: %s", name, parser.problem_mark.line + 1,
                      parser.problem ? parser.problem : "cannot be parsed");
    }
    yaml_parser_delete(&parser);
    return st;
}
