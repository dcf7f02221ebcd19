#define _GNU_SOURCE
#include "needle_set.h"
#include "eval_table.h"
#include "hash.h"
#include "status.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEEDLE_SET_MAX_BYTES ((size_t)1 << 30)

typedef struct reader {
    needle_set *set;
    const char *name;
    size_t line;
    sac_error *err;
} reader;

__attribute__((format(printf, 3, 4))) static sac_status refuse(reader *r, const char *field,
                                                               const char *format, ...) {
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return sac_fail(r->err, SAC_BAD_FILE, "%s:%zu: %s: %s", r->name, r->line, field, text);
}

/* ---------------------------------------------------------------- fields */

static sac_status get_text(reader *r, const json_t *row, const char *field, const char **out) {
    const json_t *v = json_object_get(row, field);
    if (!v) return refuse(r, field, "is missing");
    *out = json_string_value(v);
    if (!*out || !**out) return refuse(r, field, "a text is expected");
    return SAC_OK;
}

/* A list of texts, without empty ones: every answer holds an empty text. */
static sac_status get_texts(reader *r, const json_t *row, const char *field, size_t most,
                            const json_t **out) {
    const json_t *list = json_object_get(row, field), *v;
    size_t i;
    if (!list) return refuse(r, field, "is missing");
    if (!json_is_array(list) || !json_array_size(list) || json_array_size(list) > most)
        return refuse(r, field, "a list of 1 to %zu texts is expected", most);
    json_array_foreach(
        list, i,
        v) if (!json_is_string(v) || !json_string_length(v) ||
               strlen(json_string_value(v)) !=
                   json_string_length(v)) return refuse(r, field,
                                                        "a list of texts is expected, none of them empty");
    *out = list;
    return SAC_OK;
}

static sac_status get_count(reader *r, const json_t *row, const char *field, int64_t *out) {
    const json_t *v = json_object_get(row, field);
    if (!v) return SAC_OK;
    if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > INT_MAX)
        return refuse(r, field, "a whole number from 1 on is expected");
    *out = json_integer_value(v);
    return SAC_OK;
}

static sac_status get_metric(reader *r, const json_t *row, needle_metric *out) {
    const char *name;
    *out = NEEDLE_ALL;
    if (!json_object_get(row, "metric")) return SAC_OK;
    SAC_TRY(get_text(r, row, "metric", &name));
    for (int i = 0; i < NEEDLE_METRICS; i++)
        if (!strcmp(name, needle_metric_names[i])) {
            *out = (needle_metric)i;
            return SAC_OK;
        }
    return refuse(r, "metric", "all, part, number or word is expected, found '%.40s'", name);
}

/* "id", or RULER's "index". */
static sac_status get_id(reader *r, const json_t *row, needle_row *out) {
    const json_t *index = json_object_get(row, "index");
    if (json_object_get(row, "id") || !json_is_integer(index)) return get_text(r, row, "id", &out->id);
    if (asprintf(&out->own_id, "%s-%" PRId64 "-%" JSON_INTEGER_FORMAT, out->task, out->length,
                 json_integer_value(index)) < 0) {
        out->own_id = NULL;
        return sac_fail_no_memory(r->err);
    }
    out->id = out->own_id;
    return SAC_OK;
}

/* ---------------------------------------------------------------- rows */

static sac_status read_turn(reader *r, const json_t *object, needle_turn *out) {
    SAC_TRY(get_text(r, object, "input", &out->input));
    out->behind = "";
    if (json_object_get(object, "answer_prefix")) SAC_TRY(get_text(r, object, "answer_prefix", &out->behind));
    return get_texts(r, object, "outputs", 1000, &out->outputs);
}

static sac_status read_turns(reader *r, const json_t *row, needle_row *out) {
    const json_t *more = json_object_get(row, "turns");
    size_t n = json_array_size(more);
    if (more && (!json_is_array(more) || n > NEEDLE_TURNS_MAX))
        return refuse(r, "turns", "a list of at most %d questions is expected", NEEDLE_TURNS_MAX);
    if (!(out->turns = calloc(n + 1, sizeof *out->turns))) return sac_fail_no_memory(r->err);
    out->n_turns = n + 1;
    SAC_TRY(read_turn(r, row, &out->turns[0]));
    for (size_t i = 0; i < n; i++) {
        if (!json_is_object(json_array_get(more, i)))
            return refuse(r, "turns", "a list of objects is expected");
        SAC_TRY(read_turn(r, json_array_get(more, i), &out->turns[i + 1]));
    }
    return SAC_OK;
}

/* Files beside the set or below it. */
static sac_status read_media(reader *r, const json_t *row, needle_row *out) {
    size_t i;
    const json_t *v;
    if (!json_object_get(row, "media")) return SAC_OK;
    SAC_TRY(get_texts(r, row, "media", NEEDLE_MEDIA_MAX, &out->media));
    json_array_foreach(out->media, i, v) {
        const char *path = json_string_value(v);
        if (*path == '/' || strstr(path, "..") || strlen(path) > 1000)
            return refuse(r, "media", "'%.60s' leaves the set's folder", path);
    }
    return SAC_OK;
}

static sac_status note_new(reader *r, json_t *met, const char *key, bool *is_new) {
    *is_new = !json_object_get(met, key);
    return *is_new && json_object_set_new(met, key, json_true()) ? sac_fail_no_memory(r->err) : SAC_OK;
}

static sac_status note_kind(reader *r, needle_row *row) {
    char length[24];
    snprintf(length, sizeof length, "%" PRId64, row->length);
    SAC_TRY(note_new(r, r->set->tasks, row->task, &row->new_task));
    return note_new(r, r->set->lengths, length, &row->new_length);
}

static sac_status read_row(reader *r, const json_t *row, needle_row *out) {
    out->task = "all";
    if (json_object_get(row, "task")) SAC_TRY(get_text(r, row, "task", &out->task));
    SAC_TRY(get_count(r, row, "length", &out->length));
    SAC_TRY(get_count(r, row, "max_tokens", &out->max_tokens));
    SAC_TRY(get_metric(r, row, &out->metric));
    SAC_TRY(get_id(r, row, out));
    SAC_TRY(read_media(r, row, out));
    SAC_TRY(read_turns(r, row, out));
    if (json_object_get(r->set->index, out->id)) return refuse(r, "id", "'%.60s' is there twice", out->id);
    if (json_object_set_new(r->set->index, out->id, json_integer((json_int_t)r->set->n_rows - 1)))
        return sac_fail_no_memory(r->err);
    return note_kind(r, out);
}

static sac_status add_line(reader *r, const char *line, size_t n_bytes) {
    needle_set *set = r->set;
    json_error_t e;
    json_t *row = json_loadb(line, n_bytes, JSON_REJECT_DUPLICATES, &e);
    if (!row) return sac_fail(r->err, SAC_BAD_FILE, "%s:%zu: not JSON: %s", r->name, r->line, e.text);
    if (json_array_append_new(set->json, row)) return sac_fail_no_memory(r->err);
    if (!json_is_object(row))
        return sac_fail(r->err, SAC_BAD_FILE, "%s:%zu: an object is expected", r->name, r->line);
    if ((set->n_rows & (set->n_rows - 1)) == 0) { /* a power of two is full */
        needle_row *more = realloc(set->rows, (set->n_rows ? 2 * set->n_rows : 1) * sizeof *more);
        if (!more) return sac_fail_no_memory(r->err);
        set->rows = more;
    }
    set->rows[set->n_rows] = (needle_row){0};
    return read_row(r, row, &set->rows[set->n_rows++]);
}

/* ---------------------------------------------------------------- the file */

sac_status needle_set_parse(needle_set *set, const char *text, size_t n_bytes, const char *name, size_t limit,
                            sac_error *err) {
    *set = (needle_set){.json = json_array(),
                        .index = json_object(),
                        .tasks = json_object(),
                        .lengths = json_object(),
                        .fingerprint = sac_hash_quick(0, text, n_bytes)};
    if (!set->json || !set->index || !set->tasks || !set->lengths) return sac_fail_no_memory(err);
    reader r = {.set = set, .name = name, .err = err};
    const char *end = text + n_bytes;
    for (const char *at = text, *next; at < end && (!limit || set->n_rows < limit); at = next) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        next = line_end ? line_end + 1 : end;
        if (!line_end) line_end = end;
        r.line++;
        while (at < line_end && (*at == ' ' || *at == '\t' || *at == '\r')) at++;
        if (at < line_end) SAC_TRY(add_line(&r, at, (size_t)(line_end - at)));
    }
    return set->n_rows ? SAC_OK : sac_fail(err, SAC_BAD_FILE, "%s: holds no question", name);
}

sac_status needle_set_read(needle_set *set, const char *path, size_t limit, sac_error *err) {
    char *text;
    size_t n;
    *set = (needle_set){0};
    SAC_TRY(eval_table_bytes(&text, &n, path, NEEDLE_SET_MAX_BYTES, err));
    sac_status st = needle_set_parse(set, text, n, path, limit, err);
    free(text);
    return st;
}

bool needle_set_is(const char *path) {
    FILE *f = fopen(path, "rbe");
    char *line = NULL;
    size_t room = 0;
    int first = f ? fgetc(f) : EOF; /* a list of videos, which may be one long line, begins otherwise */
    ssize_t n = first == '{' && ungetc(first, f) == first ? getline(&line, &room, f) : -1;
    json_t *row = n > 0 ? json_loadb(line, (size_t)n, 0, NULL) : NULL;
    bool is = json_object_get(row, "input") && json_object_get(row, "outputs");
    json_decref(row);
    free(line);
    if (f) fclose(f);
    return is;
}

void needle_set_free(needle_set *set) {
    for (size_t i = 0; i < set->n_rows; i++) {
        free(set->rows[i].turns);
        free(set->rows[i].own_id);
    }
    free(set->rows);
    json_decref(set->json);
    json_decref(set->index);
    json_decref(set->tasks);
    json_decref(set->lengths);
    *set = (needle_set){0};
}

size_t needle_set_find(const needle_set *set, const char *id) {
    const json_t *at = json_object_get(set->index, id);
    return at ? (size_t)json_integer_value(at) : SIZE_MAX;
}
