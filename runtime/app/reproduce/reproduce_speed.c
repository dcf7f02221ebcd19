#define _GNU_SOURCE
#include "reproduce_speed.h"
#include "clock.h"
#include "compare_row.h"
#include "interrupt.h"
#include "journal.h"
#include "progress.h"
#include "report.h"
#include "run_files.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SPEED_STEPS = 8, SPEED_PROMPT = 16 };

typedef struct speed {
    run *r;
    const settings *s;
    const reproduce_table *t;
    const method_list *list;
    double *ours;
    speed_line *lines;
    journal_file journal;
    json_t *header;
    progress line;
    size_t done;
} speed;

/* ---------------------------------------------------------------- one figure */

/* Tokens of a sentence in any order (splitmix64), the same for every row; to free. */
static sac_status draw_tokens(const run *r, size_t n, int32_t **out, sac_error *err) {
    static const char text[] =
        "The eye does not see a scene at once; it jumps to what is worth looking at next. ";
    int32_t words[256];
    size_t n_words;
    uint64_t state = 1;
    SAC_TRY(sac_tokenize_text(r->model, text, sizeof text - 1, false, false, words, SAC_COUNT(words),
                              &n_words, err));
    if (n_words > SAC_COUNT(words)) n_words = SAC_COUNT(words);
    if (!n_words)
        return sac_fail(err, SAC_BAD_FILE, "%s: the tokenizer makes nothing of a text", r->model_path);
    if (!(*out = malloc(n * sizeof **out))) return sac_fail_no_memory(err);
    for (size_t i = 0; i < n; i++) {
        uint64_t z = (state += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        (*out)[i] = words[(z ^ (z >> 27)) % n_words];
    }
    return SAC_OK;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static sac_status time_steps(run *r, const int32_t *ids, double *out, sac_error *err) {
    double times[SPEED_STEPS + 1];
    for (int i = 0; i <= SPEED_STEPS; i++) {
        int64_t start = sac_now_ns();
        SAC_TRY(sac_session_append(r->session, &ids[i], 1, NULL, err));
        times[i] = 1000 * sac_seconds_since(start);
    }
    qsort(times + 1, SPEED_STEPS, sizeof *times, by_value); /* the first step warms up */
    *out = (times[SPEED_STEPS / 2] + times[SPEED_STEPS / 2 + 1]) / 2;
    return SAC_OK;
}

static sac_status time_answer(run *r, const int32_t *ids, int64_t n, double *out, sac_error *err) {
    SAC_TRY(sac_session_append(r->session, ids, SPEED_PROMPT, NULL, err));
    int64_t start = sac_now_ns();
    for (int64_t i = 0; i < n; i++)
        SAC_TRY(sac_session_append(r->session, &ids[SPEED_PROMPT + i], 1, NULL, err));
    *out = (double)n / sac_seconds_since(start);
    return SAC_OK;
}

static sac_status time_prefill(run *r, const int32_t *ids, int64_t n, double *out, sac_error *err) {
    int64_t start = sac_now_ns();
    SAC_TRY(sac_session_append(r->session, ids, (size_t)n, NULL, err));
    *out = sac_seconds_since(start);
    return SAC_OK;
}

/* The plan has room for the cache's fullest case; what this prompt filled stands in its place. */
static double megabytes(const run *r) {
    sac_memory_report m;
    sac_session_memory(r->session, &m);
    double cache = 0, bytes = (double)m.weight_bytes + (double)m.total_bytes + (double)m.workspace_bytes;
    for (int i = 0; i < m.n_parts; i++)
        if (!strcmp(m.parts[i].tag, "kv cache")) cache += (double)m.parts[i].n_bytes;
    return (bytes - cache + (double)sac_session_kv_bytes(r->session)) / 1e6;
}

static sac_status measure(run *r, speed_kind kind, int64_t n, const int32_t *ids, double *out,
                          sac_error *err) {
    if (kind == SPEED_TOKENS) return time_answer(r, ids, n, out, err);
    SAC_TRY(time_prefill(r, ids, n, out, err));
    if (kind == SPEED_STEP) return time_steps(r, ids + n, out, err);
    if (kind == SPEED_MEMORY) *out = megabytes(r);
    return SAC_OK;
}

/* A session that cannot be had, memory that is not enough or a model that refuses the length is no failure but `refused`. */
static sac_status measure_figure(speed *p, size_t row, const char *figure, double *out, sac_error *err) {
    run *r = p->r;
    speed_line *line = &p->lines[row];
    speed_kind kind = SPEED_PREFILL;
    int64_t n = 0;
    reproduce_figure_of_speed(figure, &kind, &n);
    compare_row_config(&p->list->lines[row], r, &r->session_config);
    r->session_config.n_ctx = n + SPEED_PROMPT + SPEED_STEPS + 1;
    int32_t *ids;
    SAC_TRY(draw_tokens(r, (size_t)r->session_config.n_ctx, &ids, err));
    sac_error why;
    sac_status st = run_create_session(r, &why);
    if (st == SAC_OK) {
        interrupt_begin(r->session);
        st = measure(r, kind, n, ids, out, &why);
        interrupt_end();
    }
    if (r->session) run_free_session(r);
    free(ids);
    if (st == SAC_CANCELLED || st == SAC_DEVICE) *err = why;
    if (st == SAC_OK || st == SAC_CANCELLED || st == SAC_DEVICE) return st;
    if (line->refused == SAC_OK) line->why = why;
    line->refused = st;
    return SAC_OK;
}

/* ---------------------------------------------------------------- the journal */

/* Settings that rows share and times depend on; lengths are the figures'. */
static json_t *describe_settings(const run *r) {
    const sac_session_config *c = &r->session_config;
    return json_pack("{s:b, s:I, s:b, s:s*, s:s*}", "fast", r->s->fast, "prefill_chunk",
                     (json_int_t)c->prefill_chunk, "measure_mass", c->measure_mass, "draft", c->draft, "rope",
                     c->rope);
}

/* All that times depend on. */
static json_t *make_header(const speed *p, sac_error *err) {
    char model[17];
    if (run_files_fingerprint(p->r->model_path, model, err) != SAC_OK) return NULL;
    json_t *rows = json_array();
    for (size_t i = 0; rows && i < p->list->n; i++) {
        char *text = method_line_text(p->list->lines[i].part);
        json_array_append_new(rows, json_string(text ? text : ""));
        free(text);
    }
    json_t *j =
        json_pack("{s:i, s:s, s:s, s:s, s:s, s:i, s:o, s:o}", "saccade_speed", 1, "version", SAC_VERSION,
                  "model", model, "machine", p->r->info.cpu, "device", p->r->device ? p->r->device : "cpu",
                  "threads", p->r->info.n_threads, "settings", describe_settings(p->r), "rows", rows);
    if (!j) sac_fail_no_memory(err);
    return j;
}

static size_t figure_at(const reproduce_table *t, const char *name) {
    size_t i = 0;
    while (i < t->n_figures && name && strcmp(t->figures[i], name) != 0) i++;
    return name ? i : t->n_figures;
}

static sac_status on_line(void *ctx, const journal_line *line, sac_error *err) {
    speed *p = ctx;
    char what[200];
    if (line->number == 1)
        return !journal_header_differs(line->json, p->header, (const char *const[]){NULL}, what, sizeof what)
                   ? SAC_OK
                   : sac_fail(err, SAC_BAD_CONFIG,
                              "%s: begun with other settings: %s; give these, or another --out",
                              p->journal.path, what);
    const json_t *row = json_object_get(line->json, "row");
    size_t at = figure_at(p->t, json_string_value(json_object_get(line->json, "figure")));
    if (!json_is_integer(row) || json_integer_value(row) < 0 ||
        (size_t)json_integer_value(row) >= p->list->n || at == p->t->n_figures ||
        !json_is_number(json_object_get(line->json, "value")))
        return SAC_OK;
    p->ours[(size_t)json_integer_value(row) * p->t->n_figures + at] =
        json_number_value(json_object_get(line->json, "value"));
    return SAC_OK;
}

static sac_status open_journal(speed *p, sac_error *err) {
    interrupt_goes_on();
    SAC_TRY(run_files_make_folder(p->s->out, err));
    char *path = run_files_path(p->s->out, "speed.jsonl");
    if (!path) return sac_fail_no_memory(err);
    sac_status st = journal_open(&p->journal, path, JOURNAL_WRITE, on_line, p, err);
    free(path);
    if (st == SAC_OK && !p->journal.n_lines) st = journal_write(&p->journal, p->header, 17, NULL, NULL, err);
    return st;
}

static sac_status keep(speed *p, size_t row, size_t figure, double value, sac_error *err) {
    if (!p->journal.path) return SAC_OK;
    json_t *j =
        json_pack("{s:I, s:s, s:f}", "row", (json_int_t)row, "figure", p->t->figures[figure], "value", value);
    sac_status st = j ? journal_write(&p->journal, j, 9, NULL, NULL, err) : sac_fail_no_memory(err);
    json_decref(j);
    return st;
}

/* ---------------------------------------------------------------- all of them */

static sac_status measure_all(speed *p, sac_error *err) {
    size_t n = p->t->n_figures, todo = p->list->n * n;
    for (size_t i = 0; i < p->list->n; i++)
        for (size_t k = 0; k < n; k++) {
            double *value = &p->ours[i * n + k];
            speed_kind kind;
            int64_t length = 0;
            snprintf(p->line.note, sizeof p->line.note, "%s", p->list->lines[i].name);
            progress_update(&p->line, "figures", (int64_t)p->done++, (int64_t)todo);
            reproduce_figure_of_speed(p->t->figures[k], &kind, &length);
            bool beyond = p->s->ctx && settings_given(p->s, offsetof(settings, ctx)) && length > p->s->ctx;
            if (!isnan(*value) || beyond) continue;
            SAC_TRY(measure_figure(p, i, p->t->figures[k], value, err));
            if (!isnan(*value)) SAC_TRY(keep(p, i, k, *value, err));
        }
    return SAC_OK;
}

sac_status reproduce_speed(run *r, const settings *s, const reproduce_table *t, const method_list *list,
                           double *ours, speed_line *lines, sac_error *err) {
    speed p = {.r = r, .s = s, .t = t, .list = list, .ours = ours, .lines = lines};
    sac_error at_close;
    for (size_t i = 0; i < list->n * t->n_figures; i++) ours[i] = (double)NAN;
    if (!(p.header = make_header(&p, err))) return err->status;
    progress_init(&p.line, s->quiet);
    sac_status st = s->out ? open_journal(&p, err) : SAC_OK;
    if (st == SAC_OK) st = measure_all(&p, err);
    progress_clear(&p.line);
    if (journal_close(&p.journal, &at_close) != SAC_OK && st == SAC_OK) {
        *err = at_close;
        st = at_close.status;
    }
    json_decref(p.header);
    return st;
}
