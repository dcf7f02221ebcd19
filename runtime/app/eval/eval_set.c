#include "eval_set.h"
#include "eval_place.h"
#include "eval_table.h"
#include "hash.h"
#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    eval_set *set;
    const char *name, *text, *end;
    const char *element; /* the JSON value that is being read */
    char prefix[48];     /* of fields in it: "questions[2]." */
    sac_error *err;
} reader;

/* All refusals of fields: "set.json:12: questions[2].answer: ..." */
__attribute__((format(printf, 3, 4))) static sac_status refuse(reader *r, const char *field,
                                                               const char *format, ...) {
    char path[96], text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    int n = snprintf(path, sizeof path, "%s%s", r->prefix, field);
    if (!*field && n > 0 && (size_t)n < sizeof path)
        path[n - 1] = 0; /* the element itself: without its '.' */
    size_t line = eval_place_line(r->text, eval_place_find(r->element, r->end, path));
    return sac_fail(r->err, SAC_BAD_FILE, "%s:%zu: %s: %s", r->name, line, path, text);
}

/* ---------------------------------------------------------------- fields */

static sac_status get_optional(reader *r, const json_t *object, const char *field, const char **out) {
    const json_t *v = json_object_get(object, field);
    *out = NULL;
    if (!v || json_is_null(v)) return SAC_OK;
    if (!json_is_string(v)) return refuse(r, field, "expected a text, found %s", eval_place_kind(v));
    *out = json_string_value(v);
    return SAC_OK;
}

static sac_status get_text(reader *r, const json_t *object, const char *field, const char **out) {
    SAC_TRY(get_optional(r, object, field, out));
    if (!*out) return refuse(r, field, "is missing");
    return **out ? SAC_OK : refuse(r, field, "is empty");
}

static sac_status get_options(reader *r, const json_t *object, eval_question *q) {
    const json_t *list = json_object_get(object, "options");
    if (!list) return refuse(r, "options", "is missing");
    if (!json_is_array(list)) return refuse(r, "options", "expected a list, found %s", eval_place_kind(list));
    if (json_array_size(list) != EVAL_OPTIONS)
        return refuse(r, "options", "expected %d options, found %zu", EVAL_OPTIONS, json_array_size(list));
    for (size_t i = 0; i < EVAL_OPTIONS; i++) {
        char field[24];
        snprintf(field, sizeof field, "options[%zu]", i);
        const json_t *v = json_array_get(list, i);
        if (!json_is_string(v)) return refuse(r, field, "expected a text, found %s", eval_place_kind(v));
        const char *text = q->options[i] = json_string_value(v);
        if (text[0] != (char)('A' + i) || !text[1] || !strchr(".):, ", text[1]))
            return refuse(r, field, "expected a text that starts with '%c.', found '%.40s'", (char)('A' + i),
                          text);
    }
    return SAC_OK;
}

static sac_status get_answer(reader *r, const json_t *object, char *out) {
    const char *text;
    SAC_TRY(get_text(r, object, "answer", &text));
    if (text[0] < 'A' || text[0] >= 'A' + EVAL_OPTIONS || text[1])
        return refuse(r, "answer", "expected a letter from A to D, found '%.40s'", text);
    *out = text[0];
    return SAC_OK;
}

static sac_status read_question(reader *r, const json_t *object, eval_question *q) {
    SAC_TRY(get_text(r, object, "question_id", &q->id));
    SAC_TRY(get_text(r, object, "task_type", &q->task_type));
    SAC_TRY(get_text(r, object, "question", &q->text));
    SAC_TRY(get_options(r, object, q));
    SAC_TRY(get_answer(r, object, &q->answer));
    return get_optional(r, object, "response", &q->response);
}

/* The name becomes part of a path: nothing that leaves the folder. */
static bool is_file_name(const char *s) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    return *s && *s != '.' && strlen(s) <= 200 && strspn(s, letters) == strlen(s);
}

static sac_status find_file_name(reader *r, eval_video *v) {
    const char *in_url = v->url ? strstr(v->url, "v=") : NULL;
    const char *field = v->video_id ? "videoID" : in_url ? "url" : "video_id";
    v->file = v->video_id ? v->video_id : in_url ? in_url + 2 : v->id;
    if (is_file_name(v->file)) return SAC_OK;
    return refuse(r, field,
                  "names the video's file; letters, digits, '-', '_' and '.' are expected, found '%.60s'",
                  v->file);
}

static sac_status read_video_fields(reader *r, const json_t *object, eval_video *v) {
    SAC_TRY(get_text(r, object, "video_id", &v->id));
    SAC_TRY(get_text(r, object, "duration", &v->duration));
    if (strcmp(v->duration, "short") && strcmp(v->duration, "medium") && strcmp(v->duration, "long"))
        return refuse(r, "duration", "expected short, medium or long, found '%.40s'", v->duration);
    SAC_TRY(get_text(r, object, "domain", &v->domain));
    SAC_TRY(get_text(r, object, "sub_category", &v->sub_category));
    SAC_TRY(get_optional(r, object, "url", &v->url));
    SAC_TRY(get_optional(r, object, "videoID", &v->video_id));
    return find_file_name(r, v);
}

/* ---------------------------------------------------------------- building */

/* Arrays grow by doubling: a power of two is full. */
static bool is_full(size_t n) {
    return (n & (n - 1)) == 0;
}

static eval_video *add_video(reader *r, const eval_video *v) {
    eval_set *set = r->set;
    if (is_full(set->n_videos)) {
        eval_video *more = realloc(set->videos, (set->n_videos ? 2 * set->n_videos : 1) * sizeof *more);
        if (!more) return NULL;
        set->videos = more;
    }
    if (json_object_set_new(set->video_index, v->id, json_integer((json_int_t)set->n_videos))) return NULL;
    set->videos[set->n_videos] = *v;
    return &set->videos[set->n_videos++];
}

static sac_status add_question(reader *r, eval_video *v, const eval_question *q) {
    if (json_object_get(r->set->question_index, q->id))
        return refuse(r, "question_id", "'%.60s' is there twice", q->id);
    if (is_full(v->n_questions)) {
        eval_question *more = realloc(v->questions, (v->n_questions ? 2 * v->n_questions : 1) * sizeof *more);
        if (!more) return sac_fail_no_memory(r->err);
        v->questions = more;
    }
    if (json_object_set_new(r->set->question_index, q->id, json_integer(0)))
        return sac_fail_no_memory(r->err);
    v->questions[v->n_questions++] = *q;
    r->set->n_questions++;
    return SAC_OK;
}

/* An element of the list: a video with its questions. */
static sac_status read_video(reader *r, const json_t *object) {
    eval_video fields = {0};
    SAC_TRY(read_video_fields(r, object, &fields));
    if (json_object_get(r->set->video_index, fields.id))
        return refuse(r, "video_id", "'%.60s' is there twice", fields.id);
    const json_t *list = json_object_get(object, "questions");
    if (!list) return refuse(r, "questions", "is missing");
    if (!json_is_array(list)) return refuse(r, "questions", "expected a list, found %s", eval_place_kind(list));
    eval_video *v = add_video(r, &fields);
    if (!v) return sac_fail_no_memory(r->err);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        eval_question q = {0};
        snprintf(r->prefix, sizeof r->prefix, "questions[%zu].", i);
        if (!json_is_object(item)) return refuse(r, "", "expected an object, found %s", eval_place_kind(item));
        SAC_TRY(read_question(r, item, &q));
        SAC_TRY(add_question(r, v, &q));
    }
    return SAC_OK;
}

static bool same(const char *a, const char *b) {
    return a == b || (a && b && !strcmp(a, b));
}

/* A line of JSONL: a question with the fields of its video. */
static sac_status read_row(reader *r, const json_t *object) {
    eval_video fields = {0};
    eval_question q = {0};
    SAC_TRY(read_video_fields(r, object, &fields));
    SAC_TRY(read_question(r, object, &q));
    const json_t *at = json_object_get(r->set->video_index, fields.id);
    eval_video *v = at ? &r->set->videos[json_integer_value(at)] : add_video(r, &fields);
    if (!v) return sac_fail_no_memory(r->err);
    const char *differs = !same(v->duration, fields.duration)           ? "duration"
                          : !same(v->domain, fields.domain)             ? "domain"
                          : !same(v->sub_category, fields.sub_category) ? "sub_category"
                          : !same(v->file, fields.file)                 ? "videoID"
                                                                        : NULL;
    if (differs) return refuse(r, differs, "differs from an earlier row of video '%.60s'", v->id);
    return add_question(r, v, &q);
}

/* ---------------------------------------------------------------- the file */

/* One JSON object from *at on, which moves behind it; kept by the set. */
static sac_status parse_object(reader *r, const char **at, const char *end, size_t flags,
                               const json_t **out) {
    json_error_t e;
    json_t *v = json_loadb(*at, (size_t)(end - *at), JSON_REJECT_DUPLICATES | flags, &e);
    r->element = *at;
    r->prefix[0] = 0;
    if (!v && json_error_code(&e) == json_error_out_of_memory) return sac_fail_no_memory(r->err);
    if (!v)
        return sac_fail(r->err, SAC_BAD_FILE, "%s:%zu: not JSON: %s", r->name,
                        eval_place_line(r->text, *at) + (size_t)(e.line > 0 ? e.line - 1 : 0), e.text);
    if (json_array_append_new(r->set->json, v)) return sac_fail_no_memory(r->err);
    if (!json_is_object(v))
        return sac_fail(r->err, SAC_BAD_FILE, "%s:%zu: expected an object, found %s", r->name,
                        eval_place_line(r->text, *at), eval_place_kind(v));
    if (flags & JSON_DISABLE_EOF_CHECK) *at += e.position;
    *out = v;
    return SAC_OK;
}

static const char *skip_space(const char *p, const char *end) {
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r')) p++;
    return p;
}

static sac_status refuse_syntax(reader *r, const char *at, const char *text) {
    return sac_fail(r->err, SAC_BAD_FILE, "%s:%zu: not JSON: %s", r->name, eval_place_line(r->text, at),
                    text);
}

/* Element by element, so that each has a place in the text. at: behind the '['. */
static sac_status read_list(reader *r, const char *at) {
    const json_t *object;
    at = skip_space(at, r->end);
    while (at < r->end && *at != ']') {
        SAC_TRY(parse_object(r, &at, r->end, JSON_DISABLE_EOF_CHECK, &object));
        SAC_TRY(read_video(r, object));
        at = skip_space(at, r->end);
        if (at == r->end || *at == ']') break;
        if (*at != ',') return refuse_syntax(r, at, "',' or ']' expected after a video");
        at = skip_space(at + 1, r->end);
    }
    if (at == r->end) return refuse_syntax(r, at, "the list does not end");
    at = skip_space(at + 1, r->end);
    return at == r->end ? SAC_OK : refuse_syntax(r, at, "something follows the list");
}

static sac_status read_rows(reader *r, const char *at) {
    while (at < r->end) {
        const char *line_end = memchr(at, '\n', (size_t)(r->end - at));
        if (!line_end) line_end = r->end;
        if (skip_space(at, line_end) < line_end) {
            const json_t *object;
            SAC_TRY(parse_object(r, &at, line_end, 0, &object));
            SAC_TRY(read_row(r, object));
        }
        at = line_end + (line_end < r->end);
    }
    return SAC_OK;
}

/* Places of the questions over the whole set, once no more can come. */
static sac_status number_questions(reader *r) {
    size_t n = 0;
    for (size_t i = 0; i < r->set->n_videos; i++) {
        eval_video *v = &r->set->videos[i];
        v->first = n;
        for (size_t k = 0; k < v->n_questions; k++, n++)
            if (json_object_set_new(r->set->question_index, v->questions[k].id, json_integer((json_int_t)n)))
                return sac_fail_no_memory(r->err);
    }
    return n ? SAC_OK : sac_fail(r->err, SAC_BAD_FILE, "%s: holds no question", r->name);
}

sac_status eval_set_parse(eval_set *set, const char *text, size_t n_bytes, const char *name, sac_error *err) {
    *set = (eval_set){.json = json_array(), .video_index = json_object(), .question_index = json_object()};
    if (!set->json || !set->video_index || !set->question_index) return sac_fail_no_memory(err);
    reader r = {.set = set, .name = name, .text = text, .end = text + n_bytes, .err = err};
    set->fingerprint = sac_hash_quick(0, text, n_bytes);
    const char *at = text;
    if (n_bytes >= 3 && !memcmp(at, "\xef\xbb\xbf", 3)) at += 3;
    at = skip_space(at, r.end);
    if (at == r.end) return sac_fail(err, SAC_BAD_FILE, "%s: is empty", name);
    if (*at != '[' && *at != '{')
        return refuse_syntax(&r, at, "a list of videos or a question a line is expected");
    SAC_TRY(*at == '[' ? read_list(&r, at + 1) : read_rows(&r, at));
    return number_questions(&r);
}

sac_status eval_set_read(eval_set *set, const char *path, sac_error *err) {
    char *text;
    size_t n;
    *set = (eval_set){0};
    SAC_TRY(eval_table_bytes(&text, &n, path, EVAL_SET_MAX_BYTES, err));
    sac_status st = eval_set_parse(set, text, n, path, err);
    free(text); /* the set's texts belong to its JSON values */
    return st;
}

/* Those from the n-th on; all of them: the list too. */
static void free_questions(eval_video *v, size_t n) {
    for (size_t i = n; i < v->n_questions; i++) free(v->questions[i].item);
    if (n == 0) free(v->questions);
}

void eval_set_free(eval_set *set) {
    for (size_t i = 0; i < set->n_videos; i++) free_questions(&set->videos[i], 0);
    free(set->videos);
    json_decref(set->json);
    json_decref(set->video_index);
    json_decref(set->question_index);
    *set = (eval_set){0};
}

void eval_set_cut(eval_set *set, size_t n) {
    if (n == 0 || n >= set->n_questions) return;
    set->n_questions = n;
    for (size_t i = 0; i < set->n_videos; i++) {
        eval_video *v = &set->videos[i];
        size_t left = v->first < n ? n - v->first : 0;
        if (v->n_questions <= left) continue;
        free_questions(v, left);
        if (!left) v->questions = NULL;
        v->n_questions = left;
    }
    while (set->n_videos && !set->videos[set->n_videos - 1].n_questions)
        free(set->videos[--set->n_videos].questions);
}

size_t eval_set_find(const eval_set *set, const char *question_id) {
    const json_t *at = json_object_get(set->question_index, question_id);
    size_t i = at ? (size_t)json_integer_value(at) : SIZE_MAX;
    return i < set->n_questions ? i : SIZE_MAX;
}

const char *eval_option_text(const char *option) {
    const char *p = option + 1;
    p += strspn(p, ".):,");
    return p + strspn(p, " \t");
}
