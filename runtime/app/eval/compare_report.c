#define _GNU_SOURCE
#include "compare_report.h"
#include "method_record.h"
#include "report.h"
#include "status.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- cells */

enum { CELL = 200 };

/* Columns that come straight out of a method_summary. */
static const struct {
    const char *title;
    size_t offset;
    double scale;
    int decimals;
    const char *unit;
} figures[] = {
#define AT(field) offsetof(method_summary, field)
    {"kept", AT(kept), 1, 3, ""},
    {"FLOPs saved", AT(flops_saved), 100, 1, " %"},
    {"pairs saved", AT(pairs_saved), 100, 1, " %"},
    {"rows read", AT(decode_read), 1, 3, ""},
    {"budget", AT(decode_budget), 1, 0, ""},
    {"prompt mass", AT(prefill_mass), 1, 4, ""},
    {"step mass", AT(decode_mass), 1, 4, ""},
    {"KV B/token", AT(kv_bytes_token), 1, 1, ""},
    {"KV factor", AT(kv_factor), 1, 2, "x"},
    {"selecting", AT(select_share), 100, 1, " %"},
#undef AT
};

enum { TOKENS = 4 + SAC_COUNT(figures), SECONDS, COLUMNS };

static void put_figure(char *cell, double v, double scale, int decimals, const char *unit) {
    if (isfinite(v))
        snprintf(cell, CELL, "%.*f%s", decimals, scale * v, unit);
    else
        snprintf(cell, CELL, "-");
}

/* A name must not end the cell, nor the line. */
static void put_name(char *cell, const char *name) {
    snprintf(cell, CELL, "%s", name);
    for (char *p = cell; *p; p++)
        if (*p == '|' || (unsigned char)*p < 0x20) *p = '/';
}

static void put_scores(const compare_row *row, bool is_dense, char cells[][CELL]) {
    const eval_estimate *figure = &row->score.figure, *d = &row->to_dense.difference;
    snprintf(cells[1], CELL, "%.2f (%.1f to %.1f)", 100 * figure->value, 100 * figure->low,
             100 * figure->high);
    if (is_dense)
        snprintf(cells[2], CELL, "-");
    else
        snprintf(cells[2], CELL, "%+.2f (%+.1f to %+.1f)", 100 * d->value, 100 * d->low, 100 * d->high);
    snprintf(cells[3], CELL, "%.2f", 100 * row->score.answered.value);
}

static double figure(const compare_row *row, size_t i) {
    return *(const double *)(const void *)((const char *)&row->did + figures[i].offset);
}

static void put_row(const compare_row *row, bool is_dense, char cells[][CELL]) {
    put_name(cells[0], row->line->name);
    if (row->refused != SAC_OK) {
        snprintf(cells[1], CELL, "refused, see below");
        return;
    }
    put_scores(row, is_dense, cells);
    for (size_t i = 0; i < SAC_COUNT(figures); i++)
        put_figure(cells[4 + i], figure(row, i), figures[i].scale, figures[i].decimals, figures[i].unit);
    put_figure(cells[TOKENS], row->prompt_tokens, 1, 0, "");
    put_figure(cells[SECONDS], compare_row_seconds(row), 1, 3, "");
}

static void put_titles(const eval_set *set, char cells[][CELL]) {
    static const char *const first[] = {"method", "", "to dense, points", "of answered, %"};
    for (size_t i = 0; i < SAC_COUNT(first); i++) snprintf(cells[i], CELL, "%s", first[i]);
    snprintf(cells[1], CELL, "%s, %%", set->bench ? compare_score_name(set) : "strict");
    for (size_t i = 0; i < SAC_COUNT(figures); i++) snprintf(cells[4 + i], CELL, "%s", figures[i].title);
    snprintf(cells[TOKENS], CELL, "tokens");
    snprintf(cells[SECONDS], CELL, "s/question");
}

/* ---------------------------------------------------------------- the table */

static int columns_of(const char *utf8) {
    int n = 0;
    for (; *utf8; utf8++) n += ((unsigned char)*utf8 & 0xc0) != 0x80;
    return n;
}

static void print_cells(FILE *f, char cells[][CELL], const int *width) {
    for (size_t i = 0; i < COLUMNS; i++) {
        if (!width[i]) continue;
        int space = width[i] - columns_of(cells[i]);
        if (i) /* figures to the right, names to the left */
            fprintf(f, "| %*s%s ", space, "", cells[i]);
        else
            fprintf(f, "| %s%*s ", cells[i], space, "");
    }
    fputs("|\n", f);
}

static void print_rule(FILE *f, const int *width) {
    for (size_t i = 0; i < COLUMNS; i++) {
        if (!width[i]) continue;
        fputc('|', f);
        for (int k = 0; k < width[i] + 1; k++) fputc('-', f);
        fputc(i ? ':' : '-', f);
    }
    fputs("|\n", f);
}

/* Reducers shorten them. */
static bool prompts_differ(const comparison *c) {
    for (size_t i = 1; i < c->n_rows; i++)
        if (c->rows[i].refused == SAC_OK && fabs(c->rows[i].prompt_tokens - c->rows[0].prompt_tokens) > 0.5)
            return true;
    return false;
}

/* Otherwise a column of nothing: of mass that is not measured. */
static bool any_figure(const comparison *c, size_t i) {
    for (size_t k = 0; k < c->n_rows; k++)
        if (c->rows[k].refused == SAC_OK && isfinite(figure(&c->rows[k], i))) return true;
    return false;
}

static bool print_table(FILE *f, const comparison *c) {
    char(*cells)[CELL] = calloc((c->n_rows + 1) * COLUMNS, CELL);
    int width[COLUMNS] = {0};
    if (!cells) return false;
    put_titles(&c->set, cells);
    for (size_t i = 0; i < c->n_rows; i++) put_row(&c->rows[i], i == 0, cells + (i + 1) * COLUMNS);
    for (size_t i = 0; i < (c->n_rows + 1) * COLUMNS; i++) {
        int n = columns_of(cells[i]);
        if (width[i % COLUMNS] < n) width[i % COLUMNS] = n;
    }
    for (size_t i = 0; i < SAC_COUNT(figures); i++)
        if (!any_figure(c, i)) width[4 + i] = 0;
    if (!prompts_differ(c)) width[TOKENS] = 0;
    print_cells(f, cells, width);
    print_rule(f, width);
    for (size_t i = 1; i <= c->n_rows; i++) print_cells(f, cells + i * COLUMNS, width);
    free(cells);
    return true;
}

/* What the first columns are. */
static void print_figure_meaning(FILE *f, const comparison *c) {
    if (!c->set.bench)
        fputs(
            "\nstrict: right of all questions, with Wilson's 95 % interval; to dense: the difference of "
            "that,\n"
            "with a paired 95 % interval (Agresti and Min); a question without an answer counts as wrong in\n"
            "both. of answered: right of the questions that were answered (Video-MME's official rule). "
            "kept:\n",
            f);
    else
        fprintf(f,
                "\n%s: %s's own figure, with %s 95 %% interval; to dense: the difference of that, with a\n"
                "paired 95 %% interval (%s); a question without an answer scores nothing in\n"
                "both. of answered: mean score of the questions that were answered. kept:\n",
                compare_score_name(&c->set), c->set.bench->title,
                c->resampled ? "the bootstrap's" : "Wilson's",
                c->resampled ? "the bootstrap" : "Agresti and Min");
}

static const char meaning[] =
    "share of tokens in prefill attention, mean over questions and layers; FLOPs saved: of prefill\n"
    "attention, 1 - mean of kept^2; pairs saved: query-key products left out; rows read: of the stored\n"
    "keys and values, in a step; budget: rows chosen a step and query head; mass, where measured: of\n"
    "dense attention's weight; selecting: share of the time in attention and selection; s/question:\n"
    "prefill and decode; tokens, where shown: of a prompt.\n\n";

static bool is_sparse(const compare_row *row) {
    return row->refused == SAC_OK && row->did.kept < 1;
}

static const char layers_title[] = "kept by layer";

static void print_layers_title(FILE *f, int width, size_t n_layers) {
    fprintf(f, "\n| %-*s ", width, layers_title);
    for (size_t l = 0; l < n_layers; l++) fprintf(f, "| %5zu ", l);
    fputs("|\n|", f);
    for (int i = 0; i < width + 2; i++) fputc('-', f);
    for (size_t l = 0; l < n_layers; l++) fputs("|------:", f);
    fputs("|\n", f);
}

static bool print_layers_row(FILE *f, const comparison *c, const compare_row *row, int width, bool is_first) {
    char name[CELL];
    json_t *kept = method_record_mean_layers(row->records, c->set.n_questions);
    size_t n = json_array_size(kept);
    if (!kept) return false;
    if (is_first) print_layers_title(f, width, n);
    put_name(name, row->line->name);
    fprintf(f, "| %s%*s ", name, width - columns_of(name), "");
    for (size_t l = 0; l < n; l++) fprintf(f, "| %.3f ", json_real_value(json_array_get(kept, l)));
    fputs("|\n", f);
    json_decref(kept);
    return true;
}

/* A second table: of methods that leave tokens out, the share kept in each layer. */
static bool print_layers(FILE *f, const comparison *c) {
    int width = sizeof layers_title - 1;
    bool is_first = true;
    for (size_t i = 0; i < c->n_rows; i++)
        if (is_sparse(&c->rows[i]) && columns_of(c->rows[i].line->name) > width)
            width = columns_of(c->rows[i].line->name);
    for (size_t i = 0; i < c->n_rows; i++) {
        if (!is_sparse(&c->rows[i])) continue;
        if (!print_layers_row(f, c, &c->rows[i], width, is_first)) return false;
        is_first = false;
    }
    return true;
}

static void print_methods(FILE *f, const comparison *c) {
    for (size_t i = 0; i < c->n_rows; i++) {
        const compare_row *row = &c->rows[i];
        const sac_session_method_lines *l = &row->did.lines;
        if (row->refused != SAC_OK)
            fprintf(f, "- %s: refused: %s\n", row->line->name, row->why.text);
        else
            fprintf(f, "- %s: prefill %s, kv %s, decode %s, rope %s, reduce %s\n", row->line->name,
                    l->prefill, l->kv, l->decode, l->rope, l->reduce);
        if (row->score.n_errors)
            fprintf(f, "  (%s could not be asked)\n", report_counted(row->score.n_errors, "question"));
    }
}

char *compare_report_table(const comparison *c) {
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    if (!f) return NULL;
    fprintf(f, "%s%s%s: %s", c->set.bench ? c->set.bench->title : "", c->set.bench ? ", " : "", c->set_path,
            report_counted((int64_t)c->set.n_questions, "question"));
    if (!c->set.bench) fprintf(f, " about %s", report_counted((int64_t)c->set.n_videos, "video"));
    fprintf(f, ", prompt %s%s; model %s, %s\n\n", eval_prompt_name(c->task.prompt),
            c->task.subtitles ? ", with subtitles" : "", c->r->model_path,
            report_counted(c->r->info.n_threads, "thread"));
    bool ok = print_table(f, c) && print_layers(f, c);
    print_figure_meaning(f, c);
    fputs(meaning, f);
    print_methods(f, c);
    ok = !ferror(f) && ok;
    if (fclose(f) == 0 && ok) return text;
    free(text);
    return NULL;
}

/* ---------------------------------------------------------------- JSON */

static json_t *interval(const eval_estimate *e) {
    return json_pack("{s:f, s:f, s:f}", "value", e->value, "low", e->low, "high", e->high);
}

static json_t *to_dense(const compare_pairs *p) {
    const eval_estimate *d = &p->difference;
    return json_pack("{s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "questions", (json_int_t)p->n, "gained",
                     (json_int_t)p->gained, "lost", (json_int_t)p->lost, "value", d->value, "low", d->low,
                     "high", d->high, "p", p->p);
}

/* Right answers; a real number where an answer may be half right. */
static json_t *sum_of(const comparison *c, const compare_score *s) {
    return c->resampled ? json_real(s->sum) : json_integer((json_int_t)llround(s->sum));
}

static json_t *seconds(const compare_row *row) {
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "media", row->seconds.media, "vision",
                     row->seconds.vision, "prefill", row->seconds.prefill, "decode", row->seconds.decode,
                     "select", row->did.select_seconds, "attend", row->did.attend_seconds, "a_question",
                     report_real(compare_row_seconds(row)));
}

static json_t *describe_line(const method_line *line) {
    json_t *j = json_object();
    for (int i = 0; j && i < METHOD_PARTS; i++) {
        if (!json_object_set_new(j, method_part_names[i], report_text(line->part[i]))) continue;
        json_decref(j);
        j = NULL;
    }
    return j;
}

static json_t *describe_refused(const compare_row *row) {
    return json_pack("{s:o, s:o, s:{s:s, s:o}}", "name", report_text(row->line->name), "given",
                     describe_line(row->line), "refused", "status", sac_status_name(row->refused), "text",
                     report_text(row->why.text));
}

static json_t *describe_row(const comparison *c, const compare_row *row) {
    if (row->refused != SAC_OK) return describe_refused(row);
    char journal[160];
    snprintf(journal, sizeof journal, "journals/%s.jsonl", row->file);
    const compare_score *s = &row->score;
    json_t *whole = c->set.bench ? NULL : eval_outcome_scores(&s->outcome);
    json_t *scores =
        c->set.bench ? eval_marks_scores(&s->marks) : json_incref(json_object_get(whole, "scores"));
    json_decref(whole);
    json_t *j = json_pack(
        "{s:o, s:o, s:n, s:o, s:o, s:o, s:I, s:I, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
        report_text(row->line->name), "given", describe_line(row->line), "refused", "journal",
        c->s->out ? json_string(journal) : json_null(), "methods", method_summary_json(&row->did),
        "kept_by_layer", method_record_mean_layers(row->records, c->set.n_questions), "questions",
        (json_int_t)s->n_counted, "answered", (json_int_t)s->n_answered, "correct", sum_of(c, s), "errors",
        (json_int_t)s->n_errors, "accuracy", interval(&s->answered), "strict", interval(&s->figure),
        "to_dense", row == c->rows ? json_null() : to_dense(&row->to_dense), "prompt_tokens",
        report_real(row->prompt_tokens), "seconds", seconds(row), "scores", scores);
    return j;
}

static json_t *describe_sweep(const comparison *c, const method_sweep *s) {
    json_t *points = json_array();
    method_line line = {.name = s->name};
    memcpy(line.part, s->part, sizeof line.part);
    for (size_t i = 0; points && i < s->n; i++)
        if (json_array_append_new(points, json_pack("{s:o, s:o, s:I}", "value", report_text(s->over[i]),
                                                    "name", report_text(c->list.lines[s->lines[i]].name),
                                                    "row", (json_int_t)s->lines[i]))) {
            json_decref(points);
            points = NULL;
        }
    return json_pack("{s:o, s:o, s:o}", "name", report_text(s->name), "given", describe_line(&line), "points",
                     points);
}

json_t *compare_report_json(const comparison *c) {
    json_t *rows = json_array(), *sweeps = json_array();
    bool ok = rows && sweeps;
    for (size_t i = 0; ok && i < c->n_rows; i++)
        ok = !json_array_append_new(rows, describe_row(c, &c->rows[i]));
    for (size_t i = 0; ok && i < c->list.n_sweeps; i++)
        ok = !json_array_append_new(sweeps, describe_sweep(c, &c->list.sweeps[i]));
    if (ok)
        return json_pack("{s:i, s:O, s:s, s:s, s:o, s:o}", "saccade_compare", 1, "header", c->rows[0].header,
                         "figure", compare_score_name(&c->set), "test",
                         c->resampled ? "sign-flip" : "mcnemar", "rows", rows, "sweeps", sweeps);
    json_decref(rows);
    json_decref(sweeps);
    return NULL;
}
