#define _GNU_SOURCE
#include "caption_table.h"
#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- CSV (RFC 4180) */

enum { FIELDS_MAX = 4096 };

/* Behind the closing quote of a field that begins with one at text[at], or n where there is none. */
static size_t quoted_end(const char *text, size_t n, size_t at, bool *closed) {
    *closed = true;
    for (at++; at < n; at++) {
        if (text[at] != '"') continue;
        if (at + 1 == n || text[at + 1] != '"') return at + 1;
        at++; /* two stand for one */
    }
    *closed = false;
    return n;
}

size_t caption_csv_record(const char *text, size_t n_bytes, char separator) {
    bool first = true, closed; /* first of a field: a quote elsewhere is a character */
    for (size_t i = 0; i < n_bytes;) {
        if (first && text[i] == '"') {
            i = quoted_end(text, n_bytes, i, &closed);
            first = false;
            continue;
        }
        if (text[i] == '\n') return i;
        first = text[i++] == separator;
    }
    return n_bytes;
}

/* The field at *at, unquoted, as a JSON text; *at is then at the separator, or n. */
static json_t *read_field(const char *text, size_t n, size_t *at, char separator, const char **why) {
    size_t first = *at, n_field = 0;
    const char *plain = text + first;
    char *field = NULL;
    if (first < n && text[first] == '"') {
        bool closed;
        size_t end = quoted_end(text, n, first, &closed);
        if (!closed) *why = "a quote that is not closed";
        if (!*why && end < n && text[end] != separator) *why = "text behind the closing quote of a field";
        if (*why || !(field = malloc(end - first))) return NULL;
        for (size_t i = first + 1; i + 1 < end; i++) {
            field[n_field++] = text[i];
            if (text[i] == '"') i++;
        }
        plain = field;
        *at = end;
    } else {
        const char *stop = memchr(plain, separator, n - first);
        n_field = stop ? (size_t)(stop - plain) : n - first;
        if (memchr(plain, '"', n_field)) *why = "a quote within a field that does not begin with one";
        if (*why) return NULL;
        *at = first + n_field;
    }
    json_t *value = memchr(plain, 0, n_field) ? NULL : json_stringn(plain, n_field);
    if (!value) *why = "not a text (UTF-8)";
    free(field);
    return value;
}

/* All fields of a record. NULL: *why, or no memory. A quote that is the last byte opens a field that nothing closes. */
static json_t *read_record(const char *text, size_t n, char separator, const char **why) {
    json_t *fields = json_array();
    *why = NULL;
    for (size_t at = 0; fields; at++) {
        if (json_array_size(fields) == FIELDS_MAX) *why = "more than 4096 fields";
        json_t *field = *why ? NULL : read_field(text, n, &at, separator, why);
        if (field && !json_array_append_new(fields, field)) {
            if (at >= n) return fields;
            continue;
        }
        json_decref(fields);
        return NULL;
    }
    return NULL;
}

static const char *const file_columns[] = {"image",    "video",    "path",       "file",      "file_name",
                                           "filename", "filepath", "image_path", "video_path"};

static bool has_column(const json_t *columns, const char *name) {
    size_t i;
    json_t *column;
    json_array_foreach((json_t *)columns, i,
                       column) if (!strcmp(json_string_value(column), name)) return true;
    return false;
}

static sac_status check_columns(const caption_source *s, sac_error *err) {
    char there[200] = "";
    size_t i;
    json_t *column;
    bool named = false;
    json_array_foreach(s->columns, i, column) {
        const char *name = json_string_value(column);
        size_t n = strlen(there);
        snprintf(there + n, sizeof there - n, "%s%.40s", i ? ", " : "", name);
        for (size_t k = 0; k < i; k++)
            if (!strcmp(name, json_string_value(json_array_get(s->columns, k))))
                return sac_fail(err, SAC_BAD_FILE, "%s: two columns of its header are named '%.40s'", s->path,
                                name);
    }
    if (s->column && !has_column(s->columns, s->column))
        return sac_fail(err, SAC_BAD_CONFIG, "%s: has no column '%.40s'; there are: %s", s->path, s->column,
                        there);
    for (i = 0; i < SAC_COUNT(file_columns); i++) named |= has_column(s->columns, file_columns[i]);
    if (named || s->column) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "%s: which column names the files? give --column NAME; there are: %s",
                    s->path, there);
}

sac_status caption_csv_header(caption_source *s, const char *text, size_t n_bytes, sac_error *err) {
    const char *why;
    json_decref(s->columns);
    s->columns = read_record(text, n_bytes, s->separator, &why);
    if (!s->columns)
        return why ? sac_fail(err, SAC_BAD_FILE, "%s: its header: %s", s->path, why)
                   : sac_fail_no_memory(err);
    return check_columns(s, err);
}

/* ---------------------------------------------------------------- rows as objects */

static json_t *refuse(char **why, const char *format, ...) __attribute__((format(printf, 2, 3)));

static json_t *refuse(char **why, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (vasprintf(why, format, args) < 0) *why = NULL;
    va_end(args);
    return NULL;
}

/* {"image": file} or {"video": file}: by the column's name, or else by the file's ending. */
static json_t *file_object(const char *column, const char *file) {
    bool is_video = column && !strcmp(column, "video");
    if (!column || (strcmp(column, "image") && !is_video))
        is_video = caption_media_of_path(file) == CAPTION_VIDEO;
    return json_pack("{s:s}", is_video ? "video" : "image", file);
}

/* NULL where the header has no such column, or the cell is empty. */
static const char *cell(const caption_source *s, const json_t *fields, const char *name) {
    size_t i;
    json_t *column;
    json_array_foreach(s->columns, i, column) {
        if (strcmp(json_string_value(column), name)) continue;
        const char *text = json_string_value(json_array_get(fields, i));
        return text && *text ? text : NULL;
    }
    return NULL;
}

/* COCO's are numbers. */
static json_t *number_or_text(const char *text) {
    size_t n = strspn(text, "0123456789");
    return n && n <= 18 && !text[n] ? json_integer(strtoll(text, NULL, 10)) : json_string(text);
}

static json_t *csv_object(const caption_source *s, const json_t *fields, char **why) {
    size_t n = json_array_size(fields), want = json_array_size(s->columns);
    if (n != want) return refuse(why, "%zu fields where the header has %zu", n, want);
    const char *column = s->column, *file = column ? cell(s, fields, column) : NULL;
    for (size_t i = 0; !s->column && !file && i < SAC_COUNT(file_columns); i++)
        file = cell(s, fields, column = file_columns[i]);
    if (!file)
        return refuse(why, "names no file%s%s", s->column ? " in column " : "", s->column ? s->column : "");
    static const char *const others[] = {"id", "prompt", "image_id"};
    json_t *object = file_object(column, file);
    for (size_t i = 0; object && i < SAC_COUNT(others); i++) {
        const char *text = cell(s, fields, others[i]);
        if (!text || (s->column && !strcmp(s->column, others[i]))) continue;
        if (!json_object_set_new(object, others[i], i == 2 ? number_or_text(text) : json_string(text)))
            continue;
        json_decref(object);
        object = NULL;
    }
    *why = NULL;
    return object;
}

json_t *caption_row_json(const caption_source *s, caption_kind kind, const char *text, size_t n_bytes,
                         char **why) {
    *why = NULL;
    if (kind == CAPTION_LIST) {
        json_t *name = json_stringn(text, n_bytes);
        const char *file = json_string_value(name);
        bool is_text = name && strlen(file) == n_bytes;
        json_t *object = is_text ? file_object(NULL, file) : refuse(why, "not a name of a file (UTF-8)");
        json_decref(name);
        return object;
    }
    if (kind == CAPTION_CSV) {
        const char *wrong;
        json_t *fields = read_record(text, n_bytes, s->separator, &wrong);
        json_t *object = fields  ? csv_object(s, fields, why)
                         : wrong ? refuse(why, "not CSV: %s", wrong)
                                 : NULL;
        json_decref(fields);
        return object;
    }
    json_error_t e;
    json_t *line = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES, &e);
    if (line || json_error_code(&e) == json_error_out_of_memory) return line;
    return refuse(why, "not JSON: %s", e.text);
}
