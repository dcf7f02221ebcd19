#include "tune_log.h"
#include "report_value.h"
#include "run_files.h"
#include "status.h"
#include "tune_table.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- opening */

static sac_status on_line(void *ctx, const journal_line *line, sac_error *err) {
    tune_log *log = ctx;
    char what[200];
    if (line->number > 1) return json_array_append(log->lines, line->json) ? sac_fail_no_memory(err) : SAC_OK;
    if (!json_is_integer(json_object_get(line->json, "saccade_tune")))
        return sac_fail(err, SAC_BAD_FILE, "%s:1: not the header of a search; give another --out",
                        log->file.path);
    if (!journal_header_differs(line->json, log->header, (const char *const[]){NULL}, what, sizeof what))
        return SAC_OK;
    return sac_fail(err, SAC_BAD_CONFIG, "%s: begun with other settings: %s; give these, or another --out",
                    log->file.path, what);
}

sac_status tune_log_open(tune_log *log, const char *out, json_t *header, sac_error *err) {
    *log = (tune_log){.header = header, .lines = json_array()};
    SAC_TRY(run_files_make_folder(out, err));
    char *path = run_files_path(out, "tune.jsonl");
    if (!path || !log->lines || !header) {
        free(path);
        return sac_fail_no_memory(err);
    }
    sac_status st = journal_open(&log->file, path, JOURNAL_WRITE, on_line, log, err);
    free(path);
    if (st == SAC_OK && !log->file.n_lines) st = journal_write(&log->file, header, 17, NULL, NULL, err);
    return st;
}

sac_status tune_log_close(tune_log *log, sac_error *err) {
    sac_status st = journal_close(&log->file, err);
    json_decref(log->lines);
    log->lines = NULL;
    return st;
}

/* ---------------------------------------------------------------- reading */

static const json_t *find(const tune_log *log, const char *key, json_int_t value) {
    size_t i;
    const json_t *line;
    json_array_foreach(log->lines, i, line) {
        const json_t *v = json_object_get(line, key);
        if (v && (value < 0 || (json_is_integer(v) && json_integer_value(v) == value))) return line;
    }
    return NULL;
}

static size_t count_of(const json_t *object, const char *key) {
    json_int_t v = json_integer_value(json_object_get(object, key));
    return v > 0 ? (size_t)v : 0;
}

bool tune_log_plan(const tune_log *log, tune_plan *plan, int64_t *prompt_tokens) {
    const json_t *p = json_object_get(find(log, "plan", -1), "plan");
    const json_t *counts = json_object_get(p, "settings"), *questions = json_object_get(p, "questions");
    size_t n = json_array_size(counts);
    if (n == 0 || n > TUNE_MAX_RUNGS || json_array_size(questions) != n) return false;
    *plan = (tune_plan){.n_rungs = n,
                        .refined = count_of(p, "refined"),
                        .finalists = count_of(p, "finalists"),
                        .test_questions = count_of(p, "test_questions")};
    for (size_t i = 0; i < n; i++) {
        plan->settings[i] = (size_t)json_integer_value(json_array_get(counts, i));
        plan->questions[i] = (size_t)json_integer_value(json_array_get(questions, i));
    }
    *prompt_tokens = json_integer_value(json_object_get(p, "prompt_tokens"));
    return plan->finalists && plan->test_questions;
}

bool tune_log_rung(const tune_log *log, size_t k, const comparison *c, bool *rows) {
    const json_t *names = json_object_get(find(log, "rung", (json_int_t)k), "kept");
    if (!names) return false;
    for (size_t i = 0; i < c->n_rows; i++) {
        size_t at;
        const json_t *name;
        rows[i] = false;
        json_array_foreach(names, at, name) rows[i] =
            rows[i] || (json_is_string(name) && !strcmp(json_string_value(name), c->rows[i].line->name));
    }
    return true;
}

bool tune_log_was_cut(const tune_log *log, size_t k) {
    return json_is_true(json_object_get(find(log, "rung", (json_int_t)k), "cut"));
}

sac_status tune_log_refined(const tune_log *log, method_list *list, bool *known, sac_error *err) {
    const json_t *texts = json_object_get(find(log, "refined", -1), "refined"), *v;
    size_t i;
    *known = json_is_array(texts);
    json_array_foreach(texts, i, v) if (json_is_string(v))
        SAC_TRY(tune_table_add_line(list, json_string_value(v), err));
    return SAC_OK;
}

/* ---------------------------------------------------------------- writing */

static sac_status write_line(tune_log *log, json_t *line, sac_error *err) {
    sac_status st = line && !json_array_append(log->lines, line) ? SAC_OK : sac_fail_no_memory(err);
    if (st == SAC_OK) st = journal_write(&log->file, line, 17, NULL, NULL, err);
    json_decref(line);
    return st;
}

sac_status tune_log_write_plan(tune_log *log, const tune_plan *plan, int64_t prompt_tokens, sac_error *err) {
    json_t *counts = json_array(), *questions = json_array();
    bool ok = counts && questions;
    for (size_t i = 0; i < plan->n_rungs && ok; i++)
        ok = !json_array_append_new(counts, json_integer((json_int_t)plan->settings[i])) &&
             !json_array_append_new(questions, json_integer((json_int_t)plan->questions[i]));
    if (!ok) {
        json_decref(counts);
        json_decref(questions);
        return sac_fail_no_memory(err);
    }
    return write_line(log,
                      json_pack("{s:{s:o, s:o, s:I, s:I, s:I, s:I}}", "plan", "settings", counts, "questions",
                                questions, "refined", (json_int_t)plan->refined, "finalists",
                                (json_int_t)plan->finalists, "test_questions",
                                (json_int_t)plan->test_questions, "prompt_tokens", (json_int_t)prompt_tokens),
                      err);
}

json_t *tune_log_limits(tune_limits limits) {
    return json_pack("{s:o, s:o}", "lost", report_nine_digits(limits.lost), "moved", report_nine_digits(limits.moved));
}

json_t *tune_log_judged(const comparison *c, const tune_point *points, const size_t *row, size_t n, tune_limits limits) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++) {
        json_t *one = json_pack("{s:o, s:o, s:o, s:o}", "name", report_text(c->rows[row[i]].line->name), "cost",
                                report_real(points[i].cost), "lost", report_nine_digits(points[i].lost), "moved",
                                report_nine_digits(points[i].moved));
        if (!json_array_append_new(list, one)) continue;
        json_decref(list);
        list = NULL;
    }
    return json_pack("{s:o, s:o}", "limits", tune_log_limits(limits), "settings", list);
}

sac_status tune_log_write_rung(tune_log *log, size_t k, const comparison *c, const bool *kept,
                               size_t n_questions, bool cut, json_t *judged, sac_error *err) {
    json_t *names = json_array();
    for (size_t i = 0; names && i < c->n_rows; i++) {
        if (!kept[i] || !json_array_append_new(names, json_string(c->rows[i].line->name))) continue;
        json_decref(names);
        names = NULL;
    }
    json_t *line = json_pack("{s:I, s:I, s:b, s:o}", "rung", (json_int_t)k, "questions", (json_int_t)n_questions, "cut",
                             cut, "kept", names);
    bool ok = line && !json_object_update(line, judged);
    json_decref(judged);
    if (ok) return write_line(log, line, err);
    json_decref(line);
    return sac_fail_no_memory(err);
}

sac_status tune_log_write_refined(tune_log *log, const method_list *list, size_t from, sac_error *err) {
    json_t *texts = json_array();
    for (size_t i = from; texts && i < list->n; i++) {
        char *text = method_line_text(list->lines[i].part);
        bool ok = text && !json_array_append_new(texts, json_string(text));
        free(text);
        if (ok) continue;
        json_decref(texts);
        texts = NULL;
    }
    return texts ? write_line(log, json_pack("{s:o}", "refined", texts), err) : sac_fail_no_memory(err);
}
