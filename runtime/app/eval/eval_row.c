#define _GNU_SOURCE
#include "eval_row.h"
#include "eval_place.h"
#include "status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sac_status eval_row_refuse(eval_reader *r, const char *field, const char *format, ...) {
    char text[240];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (r->key) return sac_fail(r->err, SAC_BAD_FILE, "%s: '%.40s': %s: %s", r->file, r->key, field, text);
    return sac_fail(r->err, SAC_BAD_FILE, "%s: row %zu: %s: %s", r->file, r->number, field, text);
}

/* ---------------------------------------------------------------- fields */

static const char *keep(eval_reader *r, json_t *text) {
    if (!text || json_array_append_new(r->set->json, text)) return NULL;
    return json_string_value(text);
}

const char *eval_row_format(eval_reader *r, const char *format, ...) {
    char *text;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0) return NULL;
    json_t *v = json_stringn(text, (size_t)n);
    free(text);
    return keep(r, v);
}

sac_status eval_row_optional(eval_reader *r, const json_t *row, const char *field, const char **out) {
    const json_t *v = json_object_get(row, field);
    *out = NULL;
    if (!v || json_is_null(v)) return SAC_OK;
    if (json_is_string(v)) {
        if (json_string_length(v)) *out = json_string_value(v);
        return SAC_OK;
    }
    if (json_is_integer(v))
        *out = eval_row_format(r, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (json_is_real(v))
        *out = eval_row_format(r, "%.17g", json_real_value(v));
    else
        return eval_row_refuse(r, field, "expected a text, found %s", eval_place_kind(v));
    return *out ? SAC_OK : sac_fail_no_memory(r->err);
}

sac_status eval_row_text(eval_reader *r, const json_t *row, const char *field, const char **out) {
    SAC_TRY(eval_row_optional(r, row, field, out));
    if (*out) return SAC_OK;
    return eval_row_refuse(r, field, json_is_string(json_object_get(row, field)) ? "is empty" : "is missing");
}

sac_status eval_row_int(eval_reader *r, const json_t *row, const char *field, int64_t min, int64_t max,
                        int64_t *out) {
    const json_t *v = json_object_get(row, field);
    if (!v || json_is_null(v)) return eval_row_refuse(r, field, "is missing");
    int64_t n = 0;
    bool ok = json_is_integer(v);
    if (ok) n = json_integer_value(v);
    if (json_is_string(v) && json_string_length(v)) {
        char *end;
        errno = 0;
        n = strtoll(json_string_value(v), &end, 10);
        ok = !errno && (!*end || !strcmp(end, ".0")); /* pandas makes floats of a column with a hole */
    }
    if (ok && n >= min && n <= max) {
        *out = n;
        return SAC_OK;
    }
    return eval_row_refuse(r, field,
                           "expected a whole number from %" PRId64 " to %" PRId64 ", found %s%.40s%s", min,
                           max, json_is_string(v) ? "'" : "",
                           json_is_string(v) ? json_string_value(v)
                           : ok              ? "another"
                                             : eval_place_kind(v),
                           json_is_string(v) ? "'" : "");
}

sac_status eval_row_seconds(eval_reader *r, const json_t *row, const char *field, double *out) {
    const json_t *v = json_object_get(row, field);
    if (!v || json_is_null(v)) return SAC_OK;
    if (!json_is_number(v) || !(json_number_value(v) >= 0) || json_number_value(v) > 1e6)
        return eval_row_refuse(r, field, "expected seconds, found %s",
                               json_is_number(v) ? "another number" : eval_place_kind(v));
    *out = json_number_value(v);
    return SAC_OK;
}

sac_status eval_row_texts(eval_reader *r, const json_t *row, const char *field, bool optional,
                          const json_t **out) {
    const json_t *v = json_object_get(row, field);
    *out = NULL;
    if (!v || json_is_null(v)) return optional ? SAC_OK : eval_row_refuse(r, field, "is missing");
    if (!json_is_array(v)) return eval_row_refuse(r, field, "expected a list, found %s", eval_place_kind(v));
    if (!json_array_size(v)) return optional ? SAC_OK : eval_row_refuse(r, field, "is empty");
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!json_is_string(json_array_get(v, i)))
            return eval_row_refuse(r, field, "expected texts, found %s", eval_place_kind(json_array_get(v, i)));
    *out = v;
    return SAC_OK;
}

sac_status eval_row_at_most(eval_reader *r, const char *field, const json_t *list, size_t most) {
    const size_t n = json_array_size(list);
    return n <= most ? SAC_OK : eval_row_refuse(r, field, "expected at most %zu texts, found %zu", most, n);
}

sac_status eval_row_options(eval_reader *r, const json_t *row, const char *field, eval_item *item) {
    const json_t *list;
    SAC_TRY(eval_row_texts(r, row, field, false, &list));
    size_t n = json_array_size(list);
    if (n < 2 || n > EVAL_LETTERS_MAX)
        return eval_row_refuse(r, field, "expected 2 to %d options, found %zu", EVAL_LETTERS_MAX, n);
    for (size_t i = 0; i < n; i++) item->options[i] = json_string_value(json_array_get(list, i));
    item->n_options = n;
    return SAC_OK;
}

/* ---------------------------------------------------------------- texts */

static bool put_named(FILE *f, const char **at, const char *const *pairs) {
    for (; pairs[0]; pairs += 2) {
        size_t n = strlen(pairs[0]);
        if (strncmp(*at + 1, pairs[0], n) || (*at)[n + 1] != '}') continue;
        fputs(pairs[1], f);
        *at += n + 2;
        return true;
    }
    return false;
}

const char *eval_row_fill(eval_reader *r, const char *template, const char *const *pairs) {
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f) return NULL;
    while (*template)
        if (*template != '{' || !put_named(f, &template, pairs)) fputc(*template ++, f);
    const char *kept = fclose(f) ? NULL : keep(r, json_stringn(text, n));
    free(text);
    return kept;
}

const char *eval_row_letters(eval_reader *r, const eval_item *item, const char *before, const char *after) {
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f) return NULL;
    for (size_t i = 0; i < item->n_options; i++)
        fprintf(f, "%s%s%c%s%s", i ? "\n" : "", before, (char)('A' + i), after, item->options[i]);
    const char *kept = fclose(f) ? NULL : keep(r, json_stringn(text, n));
    free(text);
    return kept;
}

/* ---------------------------------------------------------------- media */

/* Nothing that leaves the folder. */
static bool stays_inside(const char *path) {
    size_t n = strlen(path);
    if (!n || n > 1000 || *path == '/' || path[n - 1] == '/') return false;
    for (const char *p = path; p; p = strchr(p, '/'), p = p ? p + 1 : NULL)
        if (!strcmp(p, "..") || !strncmp(p, "../", 3)) return false;
    return true;
}

static sac_status add_medium(eval_reader *r, const char *field, const eval_medium *m, eval_item *item) {
    if (item->n_media == EVAL_MEDIA_MAX)
        return eval_row_refuse(r, field, "more than %d media", EVAL_MEDIA_MAX);
    item->media[item->n_media++] = *m;
    return SAC_OK;
}

sac_status eval_row_file(eval_reader *r, const char *field, const char *path, bool is_video,
                         eval_item *item) {
    while (!strncmp(path, "./", 2)) path += 2;
    if (!stays_inside(path))
        return eval_row_refuse(r, field,
                               "expected the name of a file below the media's folder, found '%.60s'", path);
    eval_medium m = {.is_video = is_video, .path = path};
    return add_medium(r, field, &m, item);
}

sac_status eval_row_picture(eval_reader *r, const json_t *row, const char *field, eval_item *item) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\r\n";
    const char *text;
    SAC_TRY(eval_row_text(r, row, field, &text));
    /* no name of a file is that long, nor a picture that short */
    if (strlen(text) < 80) return eval_row_file(r, field, text, false, item);
    if (text[strspn(text, digits)])
        return strlen(text) < 1000 ? eval_row_file(r, field, text, false, item)
                                   : eval_row_refuse(r, field, "is no base64");
    eval_medium m = {.base64 = text};
    return add_medium(r, field, &m, item);
}

/* ---------------------------------------------------------------- items */

void eval_row_dimension(eval_item *item, const char *name, const char *value) {
    if (value && item->n_dimensions < EVAL_DIMENSIONS_MAX)
        item->dimensions[item->n_dimensions++] = (eval_dimension){name, value};
}

sac_status eval_row_letter(eval_reader *r, const char *field, int64_t i, eval_item *item) {
    if (i < 0 || (uint64_t)i >= item->n_options)
        return eval_row_refuse(r, field, "expected one of %zu options, found number %" PRId64,
                               item->n_options, i);
    item->answer = eval_row_format(r, "%c", (char)('A' + i));
    return item->answer ? SAC_OK : sac_fail_no_memory(r->err);
}

sac_status eval_row_right_option(eval_reader *r, const char *field, const char *text, eval_item *item) {
    for (size_t i = 0; i < item->n_options; i++)
        if (!strcmp(item->options[i], text)) return eval_row_letter(r, field, (int64_t)i, item);
    if (text[0] >= 'A' && text[0] <= 'Z' && !text[1]) return eval_row_letter(r, field, text[0] - 'A', item);
    return eval_row_refuse(r, field, "expected one of the options or its letter, found '%.60s'", text);
}

sac_status eval_row_right_letter(eval_reader *r, const char *field, const char *text, eval_item *item) {
    if (text[0] >= 'A' && text[0] <= 'Z' && !text[1]) return eval_row_letter(r, field, text[0] - 'A', item);
    return eval_row_right_option(r, field, text, item);
}

/* All questions are of one eval_video: media are told apart by what is in them, not by this list. */
static eval_video *the_video(eval_set *set) {
    if (set->n_videos) return set->videos;
    set->videos = calloc(1, sizeof *set->videos);
    if (!set->videos) return NULL;
    set->videos[0] = (eval_video){.id = "", .duration = "", .domain = "", .sub_category = "", .file = ""};
    set->n_videos = 1;
    return set->videos;
}

sac_status eval_row_add(eval_reader *r, const char *id, const eval_item *item) {
    eval_set *set = r->set;
    if (!id || !item->prompt) return sac_fail_no_memory(r->err);
    if (json_object_get(set->question_index, id))
        return eval_row_refuse(r, "id", "'%.60s' is there twice", id);
    eval_video *v = the_video(set);
    if (v && (v->n_questions & (v->n_questions - 1)) == 0) {
        eval_question *more = realloc(v->questions, (v->n_questions ? 2 * v->n_questions : 1) * sizeof *more);
        if (!more) return sac_fail_no_memory(r->err);
        v->questions = more;
    }
    eval_item *copy = v ? malloc(sizeof *copy) : NULL;
    if (!copy) return sac_fail_no_memory(r->err);
    *copy = *item;
    v->questions[v->n_questions++] = (eval_question){
        .id = id, .task_type = "", .text = item->question ? item->question : "", .item = copy};
    if (json_object_set_new(set->question_index, id, json_integer((json_int_t)set->n_questions++)))
        return sac_fail_no_memory(r->err);
    return SAC_OK;
}

sac_status eval_row_add_numbered(eval_reader *r, const json_t *row, const eval_item *item) {
    const char *id;
    SAC_TRY(eval_row_optional(r, row, "id", &id));
    if (r->key) id = r->key;
    return eval_row_add(r, id ? id : eval_row_format(r, "%s-%zu", r->stem, r->number), item);
}
