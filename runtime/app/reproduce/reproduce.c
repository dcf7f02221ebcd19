/* reproduce.c - `saccade reproduce`: a paper's table, asked with the settings that it prints, its figures beside ours. */
#define _GNU_SOURCE
#include "commands.h"
#include "comparison.h"
#include "eval_bench.h"
#include "eval_split.h"
#include "exit_code.h"
#include "needle_table.h"
#include "output.h"
#include "report.h"
#include "reproduce_file.h"
#include "reproduce_find.h"
#include "reproduce_list.h"
#include "reproduce_speed.h"
#include "run_files.h"
#include "status.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct reproduction {
    settings s; /* the command's with what the table says; borrows but for `set` and `videos` */
    reproduce_table table;
    char *set, *videos;
    run r;
    comparison c; /* of a set about videos, or */
    needle_table needles;
    bool is_needles;
    speed_line *speed; /* [rows], of a table of speeds */
    double *ours;      /* [rows][figures]; NAN: none */
    size_t n_questions;
} reproduction;

/* ---------------------------------------------------------------- which table */

/* "zipvl:table2", or "FILE.yaml:table2". */
static sac_status find_table(reproduction *p, const char *word, sac_error *err) {
    const char *colon = strrchr(word, ':');
    char path[4096];
    size_t n = colon ? (size_t)(colon - word) : strlen(word);
    SAC_TRY(reproduce_find(path, sizeof path, word, n, err));
    SAC_TRY(reproduce_table_read(&p->table, path, colon ? colon + 1 : "", err));
    if (p->table.lacks)
        return sac_fail(err, SAC_UNSUPPORTED, "%s %s cannot be run yet: %s", p->table.paper, p->table.name,
                        p->table.lacks);
    return SAC_OK;
}

static sac_status use_data(reproduction *p, sac_error *err) {
    const settings *s = &p->s;
    if (p->table.is_speed) return SAC_OK;
    if (!s->data)
        return sac_fail(err, SAC_BAD_ARGUMENT, "--data DIR is missing: where %s lies", p->table.set);
    SAC_TRY(settings_check_folder("--data", s->data, err));
    p->set = run_files_path(s->data, p->table.set);
    p->videos = run_files_path(s->data, p->table.videos ? p->table.videos : ".");
    if (!p->set || !p->videos) return sac_fail_no_memory(err);
    if (!s->videos) p->s.videos = p->videos;
    if (!settings_given(s, offsetof(settings, num_frames))) p->s.num_frames = p->table.frames;
    if (!s->prompt && p->table.prompt) p->s.prompt = (char *)(uintptr_t)p->table.prompt;
    p->is_needles = needle_set_is(p->set);
    return SAC_OK;
}

/* ---------------------------------------------------------------- asking */

/* Whether a question has one of the table's values (`only`). */
static bool is_wanted(const json_t *only, const eval_item *item) {
    size_t i;
    const json_t *v;
    json_array_foreach(only, i,
                       v) for (size_t d = 0; item && d < item->n_dimensions;
                               d++) if (!strcmp(item->dimensions[d].value, json_string_value(v))) return true;
    return false;
}

static sac_status keep_wanted(reproduction *p, sac_error *err) {
    eval_set *set = &p->c.set;
    size_t n = 0;
    if (!p->table.only) return SAC_OK;
    bool *keep = calloc(set->n_questions, sizeof *keep);
    if (!keep) return sac_fail_no_memory(err);
    for (size_t i = 0; i < set->n_videos; i++)
        for (size_t k = 0; k < set->videos[i].n_questions; k++)
            n += keep[set->videos[i].first + k] = is_wanted(p->table.only, set->videos[i].questions[k].item);
    sac_status st =
        n ? eval_set_keep(set, keep, err)
          : sac_fail(err, SAC_BAD_FILE, "%s: has nothing of what the table asks (`only`)", p->set);
    free(keep);
    return st;
}

static sac_status ask_set(reproduction *p, sac_error *err) {
    comparison *c = &p->c;
    c->s = &p->s;
    c->set_path = p->set;
    c->r = &p->r;
    progress_init(&c->line, p->s.quiet);
    SAC_TRY(eval_bench_read(&c->set, p->set, p->table.benchmark, err));
    SAC_TRY(keep_wanted(p, err));
    eval_set_cut(&c->set, (size_t)p->s.limit);
    SAC_TRY(eval_task_open(&c->task, &p->s, &c->set, p->set, err));
    c->task.title = NULL;
    SAC_TRY(eval_open_model(&p->r, &p->s, &c->task, err));
    SAC_TRY(comparison_open_rows(c, err));
    sac_status st = p->s.out ? comparison_open_journals(c, p->s.out, "journals", err) : SAC_OK;
    c->todo = comparison_missing(c, NULL);
    if (st == SAC_OK) st = comparison_ask(c, NULL, err);
    SAC_TRY(comparison_close_journals(c, st, err));
    p->n_questions = c->set.n_questions;
    return comparison_count(c, err);
}

static sac_status measure(reproduction *p, sac_error *err) {
    const method_list *list = &p->c.list;
    p->ours = calloc(list->n * p->table.n_figures, sizeof *p->ours);
    p->speed = calloc(list->n, sizeof *p->speed);
    if (!p->ours || !p->speed) return sac_fail_no_memory(err);
    SAC_TRY(run_open(&p->r, &p->s, 0, err));
    return reproduce_speed(&p->r, &p->s, &p->table, list, p->ours, p->speed, err);
}

static sac_status ask(reproduction *p, sac_error *err) {
    p->c.list = p->table.list; /* whichever asks owns it */
    p->table.list = (method_list){0};
    if (p->table.is_speed) return measure(p, err);
    if (!p->is_needles) return ask_set(p, err);
    SAC_TRY(run_open(&p->r, &p->s, (size_t)p->s.vision_cache_mib << 20, err));
    SAC_TRY(needle_table_ask(&p->needles, &p->s, &p->r, p->set, &p->c.list, err));
    p->n_questions = p->needles.set.n_rows;
    return SAC_OK;
}

/* ---------------------------------------------------------------- figures */

static double score_of(const compare_row *row, const char *scope) {
    const eval_score_row *found = eval_scores_find(&row->score.outcome.scores, scope, "overall", "");
    return found ? 100 * eval_official(&found->tally) : (double)NAN;
}

/* short, medium, long, overall: Video-MME's accuracy by the official rule; of other benchmarks eval_marks_figure's names; the rest as
 * compare has it, but that a method which leaves out pairs and no tokens saves FLOPs by these. */
static double of_set(const reproduction *p, size_t line, const char *figure) {
    const compare_row *row = &p->c.rows[line];
    double n = (double)(row->score.n_asked - row->score.n_errors); /* questions */
    const struct {
        const char *name;
        double value;
    } known[] = {{"flops_saved", 100 * fmax(row->did.flops_saved, row->did.pairs_saved)},
                 {"pairs_saved", 100 * row->did.pairs_saved},
                 {"kept", 100 * row->did.kept},
                 {"kv_factor", row->did.kv_factor},
                 {"rows_read", 100 * row->did.decode_read},
                 {"seconds", compare_row_seconds(row)},
                 {"prefill_seconds", row->seconds.prefill / n},
                 {"decode_seconds", row->seconds.decode / n},
                 {"budget", row->did.decode_budget}};
    if (row->refused != SAC_OK) return (double)NAN;
    for (size_t i = 0; i < SAC_COUNT(known); i++)
        if (!strcmp(figure, known[i].name)) return known[i].value;
    if (row->score.marks.marks) return eval_marks_figure(&row->score.marks, figure);
    return score_of(row, strcmp(figure, "overall") ? figure : "all");
}

/* A length ("4096"), a task, or "avg". */
static double of_needles(const reproduction *p, size_t line, const char *figure) {
    char *end;
    size_t n;
    long long length = strtoll(figure, &end, 10);
    bool is_length = !*end && length > 0;
    if (p->needles.lines[line].refused != SAC_OK) return (double)NAN;
    return 100 * needle_table_mean(&p->needles, line, is_length || !strcmp(figure, "avg") ? NULL : figure,
                                   is_length ? length : 0, &n);
}

static sac_status find_figures(reproduction *p, sac_error *err) {
    size_t n = p->table.n_figures;
    if (p->speed) return SAC_OK;
    p->ours = calloc(p->c.list.n * n, sizeof *p->ours);
    if (!p->ours) return sac_fail_no_memory(err);
    for (size_t i = 0; i < p->c.list.n; i++)
        for (size_t k = 0; k < n; k++)
            p->ours[i * n + k] =
                p->is_needles ? of_needles(p, i, p->table.figures[k]) : of_set(p, i, p->table.figures[k]);
    return SAC_OK;
}

static const sac_error *refusal(const reproduction *p, size_t line) {
    if (p->speed) return p->speed[line].refused != SAC_OK ? &p->speed[line].why : NULL;
    bool refused =
        p->is_needles ? p->needles.lines[line].refused != SAC_OK : p->c.rows[line].refused != SAC_OK;
    return !refused ? NULL : p->is_needles ? &p->needles.lines[line].why : &p->c.rows[line].why;
}

static size_t count_errors(const reproduction *p) {
    size_t n = 0;
    for (size_t i = 0; i < p->c.list.n && !p->speed; i++) {
        json_t *const *records = p->is_needles ? p->needles.lines[i].records : p->c.rows[i].records;
        for (size_t k = 0; k < p->n_questions; k++) n += json_object_get(records[k], "error") != NULL;
    }
    return n;
}

/* ---------------------------------------------------------------- text */

static void put(FILE *f, double v) {
    if (isnan(v))
        fputs(" - |", f);
    else
        fprintf(f, " %.2f |", v);
}

static void print_table(FILE *f, const reproduction *p) {
    const reproduce_table *t = &p->table;
    fprintf(f, "| method |");
    for (size_t k = 0; k < t->n_figures; k++) fprintf(f, " %s | paper |", t->figures[k]);
    fprintf(f, "\n|---|");
    for (size_t k = 0; k < t->n_figures; k++) fprintf(f, "---:|---:|");
    for (size_t i = 0; i < p->c.list.n; i++) {
        fprintf(f, "\n| %s |", p->c.list.lines[i].name);
        for (size_t k = 0; k < t->n_figures; k++) {
            put(f, p->ours[i * t->n_figures + k]);
            put(f, t->printed[i * t->n_figures + k]);
        }
    }
    fputc('\n', f);
}

static bool is_there(const eval_set *set, const json_t *value) {
    json_t *only = json_pack("[O]", value);
    bool found = false;
    for (size_t i = 0; i < set->n_videos && !found; i++)
        for (size_t k = 0; k < set->videos[i].n_questions && !found; k++)
            found = is_wanted(only, set->videos[i].questions[k].item);
    json_decref(only);
    return found;
}

/* A mean over fewer datasets than the paper's. */
static void print_missing(FILE *f, const reproduction *p) {
    size_t i, n = 0, n_printed = 0;
    const json_t *v;
    if (!p->table.only || p->is_needles) return;
    json_array_foreach(p->table.only, i, v) n += !is_there(&p->c.set, v);
    if (!n) return;
    fprintf(f, "- %zu of %zu data sets are not here: ", n, json_array_size(p->table.only));
    json_array_foreach(p->table.only, i, v) if (!is_there(&p->c.set, v))
        fprintf(f, "%s%s", n_printed++ ? ", " : "", json_string_value(v));
    fputs("; score is the mean of the others\n", f);
}

static void print_differences(FILE *f, const reproduction *p) {
    const reproduce_table *t = &p->table;
    size_t i;
    const json_t *v;
    fprintf(f, "\nWhat differs from the paper:\n\n- model: %s here, %s there\n", p->r.model_path, t->model);
    if (p->s.limit && !p->speed)
        fprintf(f, "- the first %s only\n", report_counted((int64_t)p->n_questions, "question"));
    if (t->frames && p->s.num_frames != t->frames)
        fprintf(f, "- %" PRId64 " frames here, %" PRId64 " there\n", p->s.num_frames, t->frames);
    print_missing(f, p);
    size_t n_errors = count_errors(p);
    if (n_errors) fprintf(f, "- %s could not be asked\n", report_counted((int64_t)n_errors, "question"));
    json_array_foreach(t->differs, i, v) if (json_is_string(v)) fprintf(f, "- %s\n", json_string_value(v));
    fputs("\nLines as asked:\n\n", f);
    for (i = 0; i < p->c.list.n; i++) {
        char *text = method_line_text(p->c.list.lines[i].part);
        const sac_error *why = refusal(p, i);
        fprintf(f, "- %s: %s%s%s\n", p->c.list.lines[i].name, text ? text : "", why ? ": refused: " : "",
                why ? why->text : "");
        free(text);
    }
}

static char *report(const reproduction *p) {
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    if (!f) return NULL;
    fprintf(f, "%s (%s), %s: %s\n", p->table.paper, p->table.source, p->table.name, p->table.says);
    if (p->speed)
        fprintf(f, "%s, %s\n\n", p->r.device ? p->r.device : p->r.info.cpu,
                report_counted(p->r.info.n_threads, "thread"));
    else
        fprintf(f, "%s: %s\n\n", p->set, report_counted((int64_t)p->n_questions, "question"));
    print_table(f, p);
    print_differences(f, p);
    bool bad = ferror(f);
    if (fclose(f) == 0 && !bad) return text;
    free(text);
    return NULL;
}

static json_t *report_json(const reproduction *p) {
    const reproduce_table *t = &p->table;
    json_t *rows = json_array();
    for (size_t i = 0; rows && i < p->c.list.n; i++) {
        json_t *figures = json_object();
        for (size_t k = 0; k < t->n_figures; k++)
            json_object_set_new(figures, t->figures[k],
                                json_pack("{s:o, s:o}", "ours", report_real(p->ours[i * t->n_figures + k]),
                                          "paper", report_real(t->printed[i * t->n_figures + k])));
        json_array_append_new(rows, json_pack("{s:o, s:b, s:o}", "name", report_text(p->c.list.lines[i].name),
                                              "refused", refusal(p, i) != NULL, "figures", figures));
    }
    return json_pack("{s:i, s:s, s:s, s:s, s:I, s:o}", "saccade_reproduce", 1, "paper", t->paper, "table",
                     t->name, "model", t->model, "questions", (json_int_t)p->n_questions, "rows", rows);
}

static sac_status show(const reproduction *p, sac_error *err) {
    char *text = report(p);
    sac_status st = text ? SAC_OK : sac_fail_no_memory(err);
    if (st == SAC_OK && p->s.out) st = run_files_write_text(p->s.out, "table.md", text, err);
    if (st == SAC_OK && p->s.out) st = run_files_write_json(p->s.out, "reproduce.json", report_json(p), err);
    if (st == SAC_OK && p->s.json) st = report_print(report_json(p), err);
    if (st == SAC_OK && !p->s.json) {
        output_piece(text, strlen(text));
        st = output_finish(err);
    }
    free(text);
    if (st == SAC_OK && p->is_needles) needle_table_note_failed(&p->needles);
    if (st == SAC_OK && !p->is_needles && !p->speed) comparison_note_failed(&p->c);
    for (size_t i = 0; p->speed && i < p->c.list.n; i++)
        if (p->speed[i].refused != SAC_OK) app_note_partial();
    return st;
}

/* ---------------------------------------------------------------- the command */

static sac_status reproduce_command_run(const settings *s, char **words, int n_words, sac_error *err) {
    if (s->list) return reproduce_list(s, words, n_words, err);
    if (n_words != 1)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "one table is expected, as zipvl:table2; see 'saccade reproduce --help'");
    SAC_TRY(comparison_check_settings(s, err));
    reproduction p = {.s = *s};
    sac_status st = find_table(&p, words[0], err);
    if (st == SAC_OK) st = use_data(&p, err);
    if (st == SAC_OK) st = ask(&p, err);
    if (st == SAC_OK) st = find_figures(&p, err);
    if (st == SAC_OK) st = show(&p, err);
    needle_table_free(&p.needles);
    comparison_free(&p.c);
    run_close(&p.r);
    reproduce_table_free(&p.table);
    free(p.set);
    free(p.videos);
    free(p.ours);
    free(p.speed);
    return st;
}

const command command_reproduce = {
    .name = "reproduce",
    .mask = COMMAND_REPRODUCE,
    .brief = "a paper's table: its settings asked, its figures beside ours",
    .synopsis = "[options] PAPER:TABLE --data DIR\n       saccade reproduce --list",
    .summary = "Asks a benchmark with the settings of a paper's table and prints the paper's figures beside "
               "those found here, "
               "and what\n"
               "differs. The tables come with the command (share/saccade/reproduce/PAPER.yaml); any file of that form can be named. "
               "With --out a run "
               "that was\n"
               "stopped or killed goes on there.",
    .examples = "  saccade reproduce zipvl:table2 -m MODEL --data videomme --out runs/zipvl2\n"
                "  saccade reproduce tokenselect:table2 -m MODEL --data ruler --ctx 131072 \\\n"
                "    --out runs/ts2\n"
                "  saccade reproduce twilight:table3 -m MODEL --data DIR --ctx 32768 --out tw3\n"
                "  saccade reproduce mine.yaml:first --data DIR --limit 20\n",
    .run = reproduce_command_run,
};
