#include "eval_table.h"
#include "eval_place.h"
#include "status.h"
#include "utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *skip_space(const char *p, const char *end) {
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r')) p++;
    return p;
}

/* ---------------------------------------------------------------- JSON, JSONL */

static sac_status refuse_json(const json_error_t *e, size_t line, const char *name, sac_error *err) {
    if (json_error_code(e) == json_error_out_of_memory) return sac_fail_no_memory(err);
    return sac_fail(err, SAC_BAD_FILE, "%s:%zu: not JSON: %s", name,
                    line + (size_t)(e->line > 0 ? e->line - 1 : 0), e->text);
}

static sac_status parse_lines(json_t *list, const char *at, const char *end, const char *name,
                              sac_error *err) {
    for (size_t line = 1; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        if (skip_space(at, stop) < stop) {
            json_error_t e;
            json_t *v = json_loadb(at, (size_t)(stop - at), JSON_REJECT_DUPLICATES, &e);
            if (!v) return refuse_json(&e, line, name, err);
            if (json_array_append_new(list, v)) return sac_fail_no_memory(err);
        }
        at = stop + (stop < end);
    }
    return SAC_OK;
}

/* One value, or where something follows it a value a line. */
static sac_status parse_json(json_t **out, const char *at, const char *end, const char *name,
                             sac_error *err) {
    json_error_t e;
    *out = json_loadb(at, (size_t)(end - at), JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK, &e);
    if (!*out) return refuse_json(&e, 1, name, err);
    const char *after = skip_space(at + e.position, end);
    if (after == end) return SAC_OK;
    bool is_object = json_is_object(*out);
    json_decref(*out);
    *out = NULL;
    if (!is_object)
        return sac_fail(err, SAC_BAD_FILE, "%s:%zu: not JSON: something follows the value", name,
                        eval_place_line(at, after));
    if (!(*out = json_array())) return sac_fail_no_memory(err);
    return parse_lines(*out, at, end, name, err);
}

/* ---------------------------------------------------------------- CSV, TSV */

typedef struct cells {
    const char *at, *end, *name;
    size_t line;
    char separator;
    char *cell; /* [end - at at the start]: of the field that is read, unquoted */
    size_t n;
    sac_error *err;
} cells;

static sac_status refuse_row(const cells *c, const char *text) {
    return sac_fail(c->err, SAC_BAD_FILE, "%s:%zu: %s", c->name, c->line, text);
}

static sac_status read_quoted(cells *c) {
    size_t first = c->line;
    for (c->at++; c->at < c->end; c->at++) {
        if (*c->at == '"') {
            if (c->at + 1 == c->end || c->at[1] != '"') {
                c->at++;
                return SAC_OK;
            }
            c->at++;
        }
        c->line += *c->at == '\n';
        c->cell[c->n++] = *c->at;
    }
    c->line = first;
    return refuse_row(c, "a field in quotes does not end");
}

/* The next field of a row; *last: nothing of the row follows it, and `at` is at the next row. */
static sac_status read_cell(cells *c, bool *last) {
    c->n = 0;
    if (c->at < c->end && *c->at == '"') SAC_TRY(read_quoted(c));
    while (c->at < c->end && *c->at != c->separator && *c->at != '\n') c->cell[c->n++] = *c->at++;
    *last = c->at == c->end || *c->at == '\n';
    if (*last && c->n && c->cell[c->n - 1] == '\r') c->n--;
    if (!sac_utf8_valid(c->cell, c->n)) return refuse_row(c, "not UTF-8");
    if (memchr(c->cell, 0, c->n)) return refuse_row(c, "a zero byte");
    if (c->at < c->end) {
        if (*last) c->line++;
        c->at++;
    }
    return SAC_OK;
}

static sac_status read_names(cells *c, json_t *names) {
    bool last = false;
    while (!last) {
        SAC_TRY(read_cell(c, &last));
        if (json_array_size(names) == EVAL_TABLE_MAX_COLUMNS) return refuse_row(c, "more than 256 columns");
        if (json_array_append_new(names, json_stringn(c->cell, c->n))) return sac_fail_no_memory(c->err);
    }
    return SAC_OK;
}

static sac_status read_row(cells *c, const json_t *names, json_t *row) {
    size_t line = c->line, n = json_array_size(names), i = 0;
    for (bool last = false; !last; i++) {
        SAC_TRY(read_cell(c, &last));
        if (i >= n) {
            c->line = line;
            return refuse_row(c, "more fields than the first line has names");
        }
        const char *name = json_string_value(json_array_get(names, i));
        if (c->n && *name && json_object_set_new(row, name, json_stringn(c->cell, c->n)))
            return sac_fail_no_memory(c->err);
    }
    if (i == n) return SAC_OK;
    c->line = line;
    return refuse_row(c, "fewer fields than the first line has names");
}

static sac_status read_rows(cells *c, json_t *names, json_t *list) {
    SAC_TRY(read_names(c, names));
    while (c->at < c->end) {
        if (*c->at == '\n' || *c->at == '\r') { /* an empty line */
            c->line += *c->at++ == '\n';
            continue;
        }
        json_t *row = json_object();
        if (!row || json_array_append_new(list, row)) return sac_fail_no_memory(c->err);
        SAC_TRY(read_row(c, names, row));
    }
    return SAC_OK;
}

static sac_status parse_cells(json_t **out, const char *at, const char *end, const char *name,
                              sac_error *err) {
    const char *line_end = memchr(at, '\n', (size_t)(end - at));
    if (!line_end) line_end = end;
    cells c = {
        .at = at, .end = end, .name = name, .line = 1, .err = err, .cell = malloc((size_t)(end - at) + 1)};
    c.separator = memchr(at, '\t', (size_t)(line_end - at)) ? '\t' : ',';
    json_t *names = json_array();
    *out = json_array();
    sac_status st = c.cell && names && *out ? read_rows(&c, names, *out) : sac_fail_no_memory(err);
    json_decref(names);
    free(c.cell);
    return st;
}

/* ---------------------------------------------------------------- files */

sac_status eval_table_parse(json_t **out, const char *text, size_t n_bytes, const char *name,
                            sac_error *err) {
    const char *at = text, *end = text + n_bytes;
    *out = NULL;
    if (n_bytes >= 3 && !memcmp(at, "\xef\xbb\xbf", 3)) at += 3;
    const char *first = skip_space(at, end);
    if (first == end) return sac_fail(err, SAC_BAD_FILE, "%s: is empty", name);
    if (n_bytes >= 4 && !memcmp(text, "PAR1", 4))
        return sac_fail(err, SAC_BAD_FILE, "%s: is Parquet; tools/convert_eval.py makes JSONL of it", name);
    bool is_json = *first == '[' || *first == '{';
    sac_status st = is_json ? parse_json(out, at, end, name, err) : parse_cells(out, at, end, name, err);
    if (st == SAC_OK) return st;
    json_decref(*out);
    *out = NULL;
    return st;
}

sac_status eval_table_bytes(char **text, size_t *n_bytes, const char *path, size_t max_bytes,
                            sac_error *err) {
    *text = NULL;
    FILE *f = fopen(path, "rb");
    if (!f) return sac_fail(err, SAC_NOT_FOUND, "%s: %s", path, strerror(errno));
    size_t room = 1 << 16, n = 0;
    char *bytes = malloc(room);
    while (bytes && !ferror(f) && n <= max_bytes) {
        n += fread(bytes + n, 1, room - n, f);
        if (n < room) break;
        char *more = realloc(bytes, room *= 2);
        if (!more) free(bytes);
        bytes = more;
    }
    sac_status st = !bytes          ? sac_fail_no_memory(err)
                    : ferror(f)     ? sac_fail(err, SAC_IO, "%s: %s", path, strerror(errno))
                    : n > max_bytes ? sac_fail(err, SAC_BAD_FILE, "%s: more than %zu bytes", path, max_bytes)
                                    : SAC_OK;
    fclose(f);
    if (st == SAC_OK)
        *text = bytes;
    else
        free(bytes);
    *n_bytes = n;
    return st;
}
