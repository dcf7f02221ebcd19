#define _GNU_SOURCE
#include "reproduce_file.h"
#include "input.h"
#include "status.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define FILE_MAX_BYTES ((size_t)256 << 10)

/* ---------------------------------------------------------------- YAML as JSON: scalars are texts */

enum { DEPTH_MAX = 8 };

/* left: nodes of the document that were not met yet. An alias meets one again, and lists of aliases of lists grow without
 * end. */
static json_t *to_json(yaml_document_t *d, const yaml_node_t *n, int depth, size_t *left) {
    if (!n || depth > DEPTH_MAX || !*left) return NULL;
    --*left;
    if (n->type == YAML_SCALAR_NODE)
        return json_stringn((const char *)n->data.scalar.value, n->data.scalar.length);
    json_t *out = n->type == YAML_SEQUENCE_NODE ? json_array() : json_object();
    bool ok = out != NULL;
    if (n->type == YAML_SEQUENCE_NODE)
        for (const yaml_node_item_t *i = n->data.sequence.items.start; i < n->data.sequence.items.top && ok;
             i++)
            ok = !json_array_append_new(out, to_json(d, yaml_document_get_node(d, *i), depth + 1, left));
    else
        for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top && ok;
             p++) {
            const yaml_node_t *key = yaml_document_get_node(d, p->key);
            const char *name =
                key && key->type == YAML_SCALAR_NODE ? (const char *)key->data.scalar.value : NULL;
            ok = name && *left && (--*left, true) && !json_object_get(out, name) &&
                 !json_object_set_new(out, name,
                                      to_json(d, yaml_document_get_node(d, p->value), depth + 1, left));
        }
    if (ok) return out;
    json_decref(out);
    return NULL;
}

static json_t *parse_yaml(const char *text, size_t n_bytes, const char *path, sac_error *err) {
    yaml_parser_t parser;
    yaml_document_t d;
    json_t *out = NULL;
    if (n_bytes > FILE_MAX_BYTES || !yaml_parser_initialize(&parser)) {
        sac_fail(err, SAC_BAD_CONFIG, "%s: larger than %zu bytes", path, FILE_MAX_BYTES);
        return NULL;
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, n_bytes);
    if (yaml_parser_load(&parser, &d)) {
        size_t n_nodes = (size_t)(d.nodes.top - d.nodes.start);
        out = to_json(&d, yaml_document_get_root_node(&d), 0, &n_nodes);
        yaml_document_delete(&d);
        if (!out)
            sac_fail(err, SAC_BAD_CONFIG, "%s: keys given twice, aliases, or deeper than %d", path,
                     DEPTH_MAX);
    } else {
        sac_fail(err, SAC_BAD_CONFIG, "%s:%zu: not YAML: %s", path, parser.problem_mark.line + 1,
                 parser.problem ? parser.problem : "cannot be parsed");
    }
    yaml_parser_delete(&parser);
    return out;
}

/* ---------------------------------------------------------------- a table */

bool reproduce_figure_of_speed(const char *name, speed_kind *kind, int64_t *length) {
    static const char *const names[SPEED_KINDS] = {"prefill@", "step@", "tokens_s@", "memory@"};
    for (int i = 0; i < SPEED_KINDS; i++) {
        size_t n = strlen(names[i]);
        char *end;
        if (strncmp(name, names[i], n) != 0 || name[n] < '1' || name[n] > '9') continue;
        *kind = (speed_kind)i;
        *length = strtoll(name + n, &end, 10);
        return !*end && *length <= 1 << 24;
    }
    return false;
}

typedef struct reader {
    reproduce_table *t;
    const char *path;
    sac_error *err;
} reader;

#define refuse(r, ...) sac_fail((r)->err, SAC_BAD_CONFIG, __VA_ARGS__)

static const char *text_of(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

static sac_status check_keys(reader *r, const json_t *object, const char *what, const char *const *known) {
    const char *key;
    const json_t *v;
    json_object_foreach((json_t *)(uintptr_t)object, key, v) {
        bool found = false;
        for (size_t i = 0; known[i] && !found; i++) found = !strcmp(known[i], key);
        if (!found) return refuse(r, "%s: %s: unknown key '%.60s'", r->path, what, key);
    }
    return SAC_OK;
}

static sac_status read_figures(reader *r, const json_t *table) {
    reproduce_table *t = r->t;
    const json_t *list = json_object_get(table, "figures"), *v;
    size_t i;
    t->n_figures = json_array_size(list);
    if (!t->n_figures || t->n_figures > REPRODUCE_FIGURES_MAX)
        return refuse(r, "%s: %s: figures: a list of 1 to %d names is expected", r->path, t->name,
                      REPRODUCE_FIGURES_MAX);
    json_array_foreach(list, i, v) if (!(t->figures[i] = json_string_value(v))) return refuse(
        r, "%s: %s: figures: texts are expected", r->path, t->name);
    return SAC_OK;
}

static sac_status read_printed(reader *r, const json_t *row, double *out) {
    const json_t *list = json_object_get(row, "paper"), *v;
    size_t i;
    if (json_array_size(list) != r->t->n_figures)
        return refuse(
            r, "%s: %s: %s: paper: as many figures as `figures` has are expected, - where it prints none",
            r->path, r->t->name, text_of(row, "name"));
    json_array_foreach(list, i, v) {
        const char *text = json_string_value(v);
        char *end = NULL;
        out[i] = text && strcmp(text, "-") ? strtod(text, &end) : (double)NAN;
        if (!text || (end && (*end || end == text)))
            return refuse(r, "%s: %s: %s: paper: a number or - is expected", r->path, r->t->name,
                          text_of(row, "name"));
    }
    return SAC_OK;
}

static sac_status read_row(reader *r, const json_t *row, bool is_first) {
    static const char *const known[] = {"name", "paper", "prefill", "kv", "decode", "rope", "reduce", NULL};
    if (!text_of(row, "name")) return refuse(r, "%s: %s: a row without a name", r->path, r->t->name);
    SAC_TRY(check_keys(r, row, r->t->name, known));
    method_line line = {.name = strdup(text_of(row, "name"))};
    bool ok = line.name != NULL, dense = true;
    for (int i = 0; i < METHOD_PARTS && ok; i++) {
        const char *text = text_of(row, method_part_names[i]);
        dense = dense && !text;
        if (text) ok = (line.part[i] = strdup(text)) != NULL;
    }
    size_t at = 0;
    if (!ok || (is_first && !dense)) {
        method_line_free(&line);
        return ok ? refuse(r, "%s: %s: the first row must be dense", r->path, r->t->name)
                  : sac_fail_no_memory(r->err);
    }
    SAC_TRY(method_list_add(&r->t->list, &line, false, &at, r->err));
    return read_printed(r, row, r->t->printed + at * r->t->n_figures);
}

static sac_status read_rows(reader *r, const json_t *table) {
    const json_t *rows = json_object_get(table, "rows"), *row;
    size_t i, n = json_array_size(rows);
    if (!n || n > METHOD_LIST_MAX_LINES) return refuse(r, "%s: %s: rows are missing", r->path, r->t->name);
    if (!(r->t->printed = calloc(n * r->t->n_figures, sizeof(double)))) return sac_fail_no_memory(r->err);
    json_array_foreach(rows, i, row) SAC_TRY(read_row(r, row, i == 0));
    return SAC_OK;
}

static sac_status check_only(reader *r) {
    size_t i;
    const json_t *v;
    if (!r->t->only) return SAC_OK;
    json_array_foreach(r->t->only, i, v) if (!json_is_string(v)) return refuse(
        r, "%s: %s: only: a list of texts is expected", r->path, r->t->name);
    return json_array_size(r->t->only)
               ? SAC_OK
               : refuse(r, "%s: %s: only: a list of texts is expected", r->path, r->t->name);
}

/* A table without a set measures its figures. */
static sac_status read_speed(reader *r, const json_t *table) {
    reproduce_table *t = r->t;
    speed_kind kind;
    int64_t length;
    t->is_speed = true;
    if (t->only || t->benchmark || t->videos) return refuse(r, "%s: %s: set is missing", r->path, t->name);
    SAC_TRY(read_figures(r, table));
    for (size_t i = 0; i < t->n_figures; i++)
        if (!reproduce_figure_of_speed(t->figures[i], &kind, &length))
            return refuse(r, "%s: %s: set is missing, and '%.40s' is not measured without one", r->path,
                          t->name, t->figures[i]);
    return read_rows(r, table);
}

static sac_status read_table(reader *r, const json_t *table) {
    static const char *const known[] = {"name",   "says",      "model",   "set",     "videos",
                                        "frames", "prompt",    "differs", "figures", "rows",
                                        "lacks",  "benchmark", "only",    NULL};
    reproduce_table *t = r->t;
    SAC_TRY(check_keys(r, table, t->name, known));
    t->says = text_of(table, "says");
    t->model = text_of(table, "model");
    t->set = text_of(table, "set");
    t->videos = text_of(table, "videos");
    t->prompt = text_of(table, "prompt");
    t->lacks = text_of(table, "lacks");
    t->benchmark = text_of(table, "benchmark");
    t->only = json_object_get(table, "only");
    t->differs = json_object_get(table, "differs");
    char *end = NULL;
    t->frames = text_of(table, "frames") ? strtol(text_of(table, "frames"), &end, 10) : 0;
    if (t->lacks) return SAC_OK;
    if (!t->says || !t->model) return refuse(r, "%s: %s: says and model are needed", r->path, t->name);
    if (!t->set) return read_speed(r, table);
    if (t->frames < 0 || t->frames > 100000 || (end && *end))
        return refuse(r, "%s: %s: frames: a number is expected", r->path, t->name);
    if (strstr(t->set, "..") || *t->set == '/')
        return refuse(r, "%s: %s: set: '%.60s' leaves --data", r->path, t->name, t->set);
    if (t->videos && (strstr(t->videos, "..") || *t->videos == '/'))
        return refuse(r, "%s: %s: videos: '%.60s' leaves --data", r->path, t->name, t->videos);
    SAC_TRY(check_only(r));
    SAC_TRY(read_figures(r, table));
    return read_rows(r, table);
}

char *reproduce_table_names(const json_t *file) {
    char *text = NULL;
    size_t n, i;
    const json_t *table;
    FILE *f = open_memstream(&text, &n);
    if (!f) return NULL;
    json_array_foreach(json_object_get(file, "tables"), i, table)
        fprintf(f, "%s%s", i ? ", " : "", text_of(table, "name") ? text_of(table, "name") : "?");
    return fclose(f) == 0 ? text : NULL;
}

sac_status reproduce_table_parse(reproduce_table *t, const char *text, size_t n_bytes, const char *path,
                                 const char *name, sac_error *err) {
    *t = (reproduce_table){0};
    reader r = {.t = t, .path = path, .err = err};
    if (!(t->file = parse_yaml(text, n_bytes, path, err))) return err->status;
    t->paper = text_of(t->file, "paper");
    t->source = text_of(t->file, "source");
    if (!t->paper || !t->source) return refuse(&r, "%s: paper and source are needed", path);
    size_t i;
    const json_t *table;
    json_array_foreach(json_object_get(t->file, "tables"), i, table) {
        if (!text_of(table, "name") || strcmp(text_of(table, "name"), name)) continue;
        t->name = text_of(table, "name");
        return read_table(&r, table);
    }
    char *names = reproduce_table_names(t->file);
    sac_status st =
        names ? sac_fail(err, SAC_BAD_ARGUMENT, "%s has no table '%.60s'; it has %s", path, name, names)
              : sac_fail_no_memory(err);
    free(names);
    return st;
}

/* *text is the caller's, on failure too. */
static sac_status read_bytes(const char *path, char **text, size_t *n, sac_error *err) {
    FILE *f;
    *text = NULL;
    SAC_TRY(input_open(&f, path, true, err));
    *text = malloc(FILE_MAX_BYTES + 1); /* one more than allowed tells a file that is too large */
    *n = *text ? fread(*text, 1, FILE_MAX_BYTES + 1, f) : 0;
    sac_status st = !*text      ? sac_fail_no_memory(err)
                    : ferror(f) ? sac_fail(err, SAC_IO, "%s: %s", path, strerror(errno))
                                : SAC_OK;
    fclose(f);
    return st;
}

sac_status reproduce_table_read(reproduce_table *t, const char *path, const char *name, sac_error *err) {
    *t = (reproduce_table){0};
    char *text;
    size_t n;
    sac_status st = read_bytes(path, &text, &n, err);
    if (st == SAC_OK) st = reproduce_table_parse(t, text, n, path, name, err);
    free(text);
    return st;
}

json_t *reproduce_file_read(const char *path, sac_error *err) {
    char *text;
    size_t n;
    json_t *out = read_bytes(path, &text, &n, err) == SAC_OK ? parse_yaml(text, n, path, err) : NULL;
    free(text);
    return out;
}

void reproduce_table_free(reproduce_table *t) {
    method_list_free(&t->list);
    free(t->printed);
    json_decref(t->file);
    *t = (reproduce_table){0};
}
