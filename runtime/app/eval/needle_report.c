/* needle_report.c - a needle table as text and as JSON, and the command around it (needle_table.h). */
#define _GNU_SOURCE
#include "exit_code.h"
#include "method_record.h"
#include "needle_table.h"
#include "output.h"
#include "report.h"
#include "run_files.h"
#include "status.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- means */

static double mean_of_cell(const needle_table *t, size_t line, const char *task, int64_t length, size_t *n) {
    double sum = 0;
    *n = 0;
    for (size_t i = 0; i < t->set.n_rows; i++) {
        const needle_row *row = &t->set.rows[i];
        if (strcmp(row->task, task) || row->length != length) continue;
        sum += json_number_value(json_object_get(t->lines[line].records[i], "score"));
        ++*n;
    }
    return *n ? sum / (double)*n : (double)NAN;
}

double needle_table_mean(const needle_table *t, size_t line, const char *task, int64_t length, size_t *n) {
    double sum = 0, cells = 0;
    *n = 0;
    for (size_t i = 0; i < t->set.n_rows; i++) {
        if (!t->set.rows[i].new_task || (task && strcmp(task, t->set.rows[i].task))) continue;
        for (size_t k = 0; k < t->set.n_rows; k++) {
            size_t in_cell;
            if (!t->set.rows[k].new_length || (length && length != t->set.rows[k].length)) continue;
            double v = mean_of_cell(t, line, t->set.rows[i].task, t->set.rows[k].length, &in_cell);
            if (in_cell) sum += v, cells++;
            *n += in_cell;
        }
    }
    return cells > 0 ? sum / cells : (double)NAN;
}

/* ---------------------------------------------------------------- text */

static void print_cell(FILE *f, const needle_table *t, size_t line, const char *task, int64_t length) {
    size_t n;
    double v = needle_table_mean(t, line, task, length, &n);
    if (n)
        fprintf(f, " %.2f |", 100 * v);
    else
        fprintf(f, " - |");
}

static void print_row(FILE *f, const needle_table *t, size_t line, const char *task) {
    fprintf(f, "| %s | %s |", t->lines[line].name, task ? task : "**mean**");
    for (size_t k = 0; k < t->set.n_rows; k++)
        if (t->set.rows[k].new_length) print_cell(f, t, line, task, t->set.rows[k].length);
    print_cell(f, t, line, task, 0);
    fputc('\n', f);
}

static void print_table(FILE *f, const needle_table *t) {
    fprintf(f, "| method | task |");
    for (size_t k = 0; k < t->set.n_rows; k++)
        if (t->set.rows[k].new_length) fprintf(f, " %" PRId64 " |", t->set.rows[k].length);
    fprintf(f, " all |\n|---|---|");
    for (size_t k = 0; k < t->set.n_rows; k++)
        if (t->set.rows[k].new_length) fprintf(f, "---:|");
    fprintf(f, "---:|\n");
    for (size_t i = 0; i < t->n_lines; i++) {
        if (t->lines[i].refused != SAC_OK) continue;
        for (size_t k = 0; k < t->set.n_rows; k++)
            if (t->set.rows[k].new_task) print_row(f, t, i, t->set.rows[k].task);
        print_row(f, t, i, NULL);
    }
}

static size_t count_errors(const needle_table *t, size_t line, const char **first) {
    size_t n = 0;
    for (size_t k = 0; k < t->set.n_rows; k++) {
        const json_t *e = json_object_get(t->lines[line].records[k], "error");
        if (e && !n++ && !*first) *first = json_string_value(json_object_get(e, "text"));
    }
    return n;
}

static void print_lines(FILE *f, const needle_table *t) {
    for (size_t i = 0; i < t->n_lines; i++) {
        const needle_line *l = &t->lines[i];
        const char *first = NULL;
        if (l->refused != SAC_OK) {
            fprintf(f, "- %s: refused: %s\n", l->name, l->why.text);
            continue;
        }
        fprintf(f, "- %s: prefill %s, kv %s, decode %s, rope %s, reduce %s\n", l->name, l->methods.prefill,
                l->methods.kv, l->methods.decode, l->methods.rope, l->methods.reduce);
        size_t n = count_errors(t, i, &first);
        if (n)
            fprintf(f, "  (%s could not be asked; the first: %s)\n", report_counted((int64_t)n, "question"),
                    first);
    }
}

char *needle_table_text(const needle_table *t) {
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    if (!f) return NULL;
    fprintf(f, "%s: %s; model %s\n\n", t->set_path, report_counted((int64_t)t->set.n_rows, "question"),
            t->r->model_path);
    print_table(f, t);
    fprintf(f, "\nscores of 100, by each task's own rule (needle_score.h); columns: tokens of prompt and "
               "answer; mean: of tasks.\n\n");
    print_lines(f, t);
    bool bad = ferror(f);
    if (fclose(f) == 0 && !bad) return text;
    free(text);
    return NULL;
}

/* ---------------------------------------------------------------- JSON */

static json_t *describe_mean(const needle_table *t, size_t line, const char *task, int64_t length) {
    size_t n;
    double v = needle_table_mean(t, line, task, length, &n);
    return json_pack("{s:o, s:I}", "value", report_real(v), "questions", (json_int_t)n);
}

static json_t *describe_scores(const needle_table *t, size_t line) {
    json_t *tasks = json_object();
    for (size_t i = 0; tasks && i < t->set.n_rows; i++) {
        const char *task = t->set.rows[i].task;
        if (!t->set.rows[i].new_task) continue;
        json_t *lengths = json_pack("{s:o}", "all", describe_mean(t, line, task, 0));
        for (size_t k = 0; lengths && k < t->set.n_rows; k++) {
            char key[24];
            snprintf(key, sizeof key, "%" PRId64, t->set.rows[k].length);
            if (t->set.rows[k].new_length &&
                json_object_set_new(lengths, key, describe_mean(t, line, task, t->set.rows[k].length)))
                break;
        }
        if (!json_object_set_new(tasks, task, lengths)) continue;
        json_decref(tasks);
        tasks = NULL;
    }
    return tasks;
}

static json_t *describe_line(const needle_table *t, size_t i) {
    const needle_line *l = &t->lines[i];
    const char *first = NULL;
    if (l->refused != SAC_OK)
        return json_pack("{s:o, s:{s:s, s:o}}", "name", report_text(l->name), "refused", "status",
                         sac_status_name(l->refused), "text", report_text(l->why.text));
    method_summary did = {.lines = l->methods};
    method_record_mean(l->records, t->set.n_rows, &did);
    return json_pack("{s:o, s:n, s:o, s:o, s:I, s:o}", "name", report_text(l->name), "refused", "methods",
                     method_summary_json(&did), "mean", describe_mean(t, i, NULL, 0), "errors",
                     (json_int_t)count_errors(t, i, &first), "scores", describe_scores(t, i));
}

json_t *needle_table_json(const needle_table *t) {
    json_t *rows = json_array();
    for (size_t i = 0; rows && i < t->n_lines; i++) {
        if (!json_array_append_new(rows, describe_line(t, i))) continue;
        json_decref(rows);
        rows = NULL;
    }
    return json_pack("{s:i, s:O, s:o}", "saccade_needles", 1, "header", t->lines[0].header, "rows", rows);
}

/* ---------------------------------------------------------------- the command */

void needle_table_note_failed(const needle_table *t) {
    size_t n = 0;
    const char *first = NULL;
    bool refused = false;
    for (size_t i = 0; i < t->n_lines; i++) {
        refused = refused || t->lines[i].refused != SAC_OK;
        if (t->lines[i].refused == SAC_OK) n += count_errors(t, i, &first);
    }
    if (n)
        fprintf(stderr, "saccade: %s could not be asked; the first: %s\n",
                report_counted((int64_t)n, "question"), first);
    if (n || refused) app_note_partial();
}

static sac_status show(const needle_table *t, sac_error *err) {
    char *text = needle_table_text(t);
    sac_status st = text ? SAC_OK : sac_fail_no_memory(err);
    if (st == SAC_OK && t->s->out) st = run_files_write_text(t->s->out, "table.md", text, err);
    if (st == SAC_OK && t->s->out)
        st = run_files_write_json(t->s->out, "needles.json", needle_table_json(t), err);
    if (st == SAC_OK && t->s->json) st = report_print(needle_table_json(t), err);
    if (st == SAC_OK && !t->s->json) {
        output_piece(text, strlen(text));
        st = output_finish(err);
    }
    free(text);
    if (st == SAC_OK) needle_table_note_failed(t);
    return st;
}

static sac_status check_options(const settings *s, sac_error *err) {
    static const size_t others[] = {offsetof(settings, prompt),  offsetof(settings, subtitles),
                                    offsetof(settings, reuse),   offsetof(settings, benchmark),
                                    offsetof(settings, answers), offsetof(settings, score),
                                    offsetof(settings, html)};
    if (s->retry && !s->out)
        return sac_fail(err, SAC_BAD_ARGUMENT, "--retry needs the --out of the run that has errors in it");
    return settings_refuse_given(
        s, others, SAC_COUNT(others),
        "is for benchmarks, not for a set of needles, whose rows are asked as they are", err);
}

sac_status needle_table_command(const settings *s, const char *set_path, const method_list *list,
                                sac_error *err) {
    run r = {0};
    needle_table t = {0};
    sac_status st = check_options(s, err);
    if (st == SAC_OK) st = run_open(&r, s, (size_t)s->vision_cache_mib << 20, err);
    if (st == SAC_OK) st = needle_table_ask(&t, s, &r, set_path, list, err);
    if (st == SAC_OK) st = show(&t, err);
    needle_table_free(&t);
    run_close(&r);
    return st;
}
