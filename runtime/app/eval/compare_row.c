#include "compare_row.h"
#include "eval_header.h"
#include "method_record.h"
#include "report.h"
#include "run_files.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---------------------------------------------------------------- before asking */

static sac_status make_header(compare_row *row, const run *r, const eval_task *t, const char *set_path,
                              const json_t *like, sac_error *err) {
    if (!like) {
        row->header = eval_header(r, t, set_path, err);
        return row->header ? SAC_OK : err->status;
    }
    row->header = json_deep_copy(like);
    json_t *settings_now = report_settings(r);
    if (row->header && settings_now && !json_object_set_new(row->header, "settings", settings_now))
        return SAC_OK;
    return sac_fail_no_memory(err);
}

void compare_row_config(const method_line *line, const run *r, sac_session_config *out) {
    *out = run_session_config(r->s);
    out->guidance = r->session_config.guidance;
    const char **const parts[METHOD_PARTS] = {
        [METHOD_PREFILL] = &out->prefill, [METHOD_KV] = &out->kv,         [METHOD_DECODE] = &out->decode,
        [METHOD_ROPE] = &out->rope,       [METHOD_REDUCE] = &out->reduce,
    };
    for (int i = 0; i < METHOD_PARTS; i++)
        *parts[i] = line->part[i] ? line->part[i] : i == METHOD_KV ? NULL : method_part_defaults[i];
}

sac_status compare_row_open(compare_row *row, run *r, const eval_task *t, const char *set_path,
                            const json_t *like, sac_error *err) {
    const method_line *line = row->line;
    row->journal = (eval_journal){0};
    compare_row_config(line, r, &row->config);
    row->records = calloc(t->set->n_questions, sizeof(json_t *));
    row->file = method_line_file(line);
    if (!row->records || !row->file) return sac_fail_no_memory(err);
    r->session_config = row->config;
    row->refused = run_create_session(r, &row->why);
    if (row->refused != SAC_OK) return SAC_OK;
    sac_session_methods(r->session, &row->did.lines);
    sac_status st = make_header(row, r, t, set_path, like, err);
    run_free_session(r);
    return st;
}

sac_status compare_row_resume(compare_row *row, const char *folder, const eval_set *set, bool retry,
                              sac_error *err) {
    char name[128];
    snprintf(name, sizeof name, "%s.jsonl", row->file);
    char *path = run_files_path(folder, name);
    if (!path) return sac_fail_no_memory(err);
    sac_status st = eval_journal_open(&row->journal, path, row->header, set, retry, row->records, err);
    free(path);
    return st;
}

void compare_row_free(compare_row *row, size_t n_questions) {
    compare_score_free(&row->score);
    for (size_t i = 0; row->records && i < n_questions; i++) json_decref(row->records[i]);
    free(row->records);
    free(row->file);
    json_decref(row->header);
    *row = (compare_row){0};
}

/* ---------------------------------------------------------------- afterwards */

static double mean_prompt(const compare_row *row, size_t n_records) {
    double sum = 0, n = 0;
    for (size_t i = 0; i < n_records; i++) {
        const json_t *tokens = json_object_get(row->records[i], "prompt_tokens");
        if (tokens) sum += json_number_value(tokens), n++;
    }
    return n > 0 ? sum / n : (double)NAN;
}

static double sum_seconds(const compare_row *row, size_t n, const char *part) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += json_number_value(json_object_get(json_object_get(row->records[i], "seconds"), part));
    return sum;
}

sac_status compare_row_count(compare_row *row, const compare_row *dense, const eval_task *t, bool resample,
                             sac_error *err) {
    if (row->refused != SAC_OK) return SAC_OK;
    size_t n = t->set->n_questions;
    SAC_TRY(compare_score_judge(&row->score, t->set, resample, err));
    SAC_TRY(compare_score_pairs(&row->score, row->records, &dense->score, dense->records, t->set, resample,
                                &row->to_dense, err));
    method_record_mean(row->records, n, &row->did);
    row->prompt_tokens = mean_prompt(row, n);
    row->seconds.media = sum_seconds(row, n, "media");
    row->seconds.vision = sum_seconds(row, n, "vision");
    row->seconds.prefill = sum_seconds(row, n, "prefill");
    row->seconds.decode = sum_seconds(row, n, "decode");
    return SAC_OK;
}

double compare_row_seconds(const compare_row *row) {
    double n = (double)(row->score.n_asked - row->score.n_errors);
    return n > 0 ? (row->seconds.prefill + row->seconds.decode) / n : (double)NAN;
}
