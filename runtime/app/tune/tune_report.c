#define _GNU_SOURCE
#include "tune_report.h"
#include "compare_report.h"
#include "report.h"
#include "tune_time.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const costs[TUNE_WANTS][2] = {
    [TUNE_PREFILL] = {"query-key pairs of the prompt", "seconds of prefill"},
    [TUNE_MEMORY] = {"bytes of keys and values", "bytes of keys and values"},
    [TUNE_DECODE] = {"bytes of keys and values that a step reads", "seconds of decode"},
};

tune_result *tune_results(const tune_search *t) {
    const comparison *c = &t->test;
    tune_result *r = calloc(c->n_rows, sizeof *r);
    tune_point *points = calloc(c->n_rows, sizeof *points);
    bool *front = calloc(c->n_rows, sizeof *front), *safe = calloc(c->n_rows, sizeof *safe);
    for (size_t i = 0; r && points && i < c->n_rows; i++) {
        points[i] =
            c->rows[i].refused == SAC_OK ? tune_cost(c, i, NULL, t->aim) : (tune_point){.cost = (double)NAN};
        r[i] = (tune_result){.row = &c->rows[i], .point = points[i], .cache_bytes = tune_cache_bytes(c, i)};
        r[i].chosen = t->chosen ? !strcmp(t->chosen, c->rows[i].line->name) : i == 0;
    }
    bool ok = points && front && safe;
    if (ok) tune_front(points, c->n_rows, front);
    if (ok) tune_safe_front(points, c->n_rows, safe);
    for (size_t i = 0; r && ok && i < c->n_rows; i++) r[i].front = front[i];
    for (size_t i = 0; r && ok && i < c->n_rows; i++) r[i].safe = safe[i];
    free(points);
    free(front);
    free(safe);
    if (ok) return r;
    free(r);
    return NULL;
}

/* ---------------------------------------------------------------- texts */

typedef struct text {
    FILE *f;
    char *bytes;
    size_t n;
} text;

static bool text_open(text *t) {
    *t = (text){0};
    return (t->f = open_memstream(&t->bytes, &t->n)) != NULL;
}

static char *text_close(text *t) {
    bool bad = ferror(t->f);
    if (fclose(t->f) == 0 && !bad) return t->bytes;
    free(t->bytes);
    return NULL;
}

static double answered(const compare_row *row) {
    return fmax(1, (double)(row->score.n_asked - row->score.n_errors));
}

static void print_row(FILE *f, const tune_result *r, bool is_dense) {
    const compare_row *row = r->row;
    const eval_estimate *right = &row->score.figure, *difference = &row->to_dense.difference;
    fprintf(f, "| %s%s%s | %.1f %% | %.2f (%.1f to %.1f) | ", r->chosen ? "**" : "", row->line->name,
            r->chosen ? "**" : "", 100 * r->point.cost, 100 * right->value, 100 * right->low,
            100 * right->high);
    if (is_dense)
        fprintf(f, "- | ");
    else
        fprintf(f, "%+.2f (%+.1f to %+.1f) | ", 100 * difference->value, 100 * difference->low,
                100 * difference->high);
    fprintf(f, "%.3f | ", r->point.moved);
    fprintf(f, "%.4f | %.4f | %.2f | %s |\n", row->seconds.prefill / answered(row),
            row->seconds.decode / answered(row), r->cache_bytes / 1e6,
            r->front ? "yes" : r->safe ? "safer" : "");
}

static const tune_result *chosen_of(const tune_search *t, const tune_result *results) {
    for (size_t i = 0; i < t->test.n_rows; i++)
        if (results[i].chosen) return &results[i];
    return results;
}

static void print_verdict(FILE *f, const tune_search *t, const tune_result *results) {
    const tune_result *r = chosen_of(t, results);
    const double low = r->row->to_dense.difference.low, high = r->row->to_dense.difference.high,
                 difference = r->row->to_dense.difference.value;
    if (!t->chosen) {
        fprintf(f,
                "No setting cost less and lost at most %g points on the tuning questions: dense attention "
                "stays.\n",
                t->s->lose);
        return;
    }
    fprintf(f,
            "Chosen: %s, with %.1f %% of dense's %s. On the test questions the difference to dense is\n%+.2f "
            "points "
            "(95 %% interval %+.1f to %+.1f)",
            r->row->line->name, 100 * r->point.cost, costs[t->aim.want][t->aim.by_time], 100 * difference,
            100 * low, 100 * high);
    if (100 * difference < -t->s->lose)
        fprintf(f, ": more than the %g that may be lost; the lines of the front say what costs less.\n",
                t->s->lose);
    else if (100 * low < -t->s->lose)
        fprintf(f, "; so few questions do not rule out a loss of more than %g.\n", t->s->lose);
    else
        fprintf(f, ".\n");
    if (t->used.moved > t->limits.moved)
        fprintf(f,
                "On the tuning questions nothing that costs less moved right answers by %.3g at most, which --lose allows: the\n"
                "limit was doubled until something did, at %.3g.\n",
                t->limits.moved, t->used.moved);
}

static void print_lines(FILE *f, const tune_search *t, const tune_result *results) {
    for (size_t i = 0; i < t->test.n_rows; i++) {
        const compare_row *row = results[i].row;
        const sac_session_method_lines *l = &row->did.lines;
        fprintf(f, "- %s: prefill %s, kv %s, decode %s, rope %s, reduce %s\n", row->line->name, l->prefill,
                l->kv, l->decode, l->rope, l->reduce);
    }
}

static void print_spent(FILE *f, const tune_search *t) {
    tune_spent a = tune_spent_by(&t->tuning), b = tune_spent_by(&t->test);
    double all = fmax(a.total + b.total, 1e-9);
    fprintf(f,
            "Asking took %.1f minutes: %s to tune (%.1f), %s to test (%.1f). Prompts were %.0f %% of it,\n"
            "pictures and videos %.0f %%, steps %.0f %%.\n\n",
            all / 60, report_counted(a.answers, "answer"), a.total / 60, report_counted(b.answers, "answer"), b.total / 60,
            100 * (a.prefill + b.prefill) / all, 100 * (a.media + a.vision + b.media + b.vision) / all,
            100 * (a.decode + b.decode) / all);
}

char *tune_report_text(const tune_search *t, const tune_result *results) {
    text out;
    if (!text_open(&out)) return NULL;
    fprintf(out.f, "%s: model %s, --want %s --lose %g by %s, seed %llu\n", t->test.set_path, t->r.model_path,
            tune_want_names[t->aim.want], t->s->lose, t->aim.by_time ? "time" : "work",
            (unsigned long long)t->s->seed);
    fprintf(out.f, "Tried %s on up to %s; ", report_counted((int64_t)t->n_tried, "setting"),
            report_counted((int64_t)t->n_tuned, "question"));
    fprintf(out.f, "judged on %s", report_counted((int64_t)t->test.set.n_questions, "other question"));
    if (t->test.set.bench)
        fprintf(out.f, " about other media.");
    else
        fprintf(out.f, " about %s that were not among them.",
                report_counted((int64_t)t->test.set.n_videos, "other video"));
    fprintf(out.f, "%s\n\n", t->cut ? " Time was up before all were asked." : "");
    print_verdict(out.f, t, results);
    fprintf(out.f,
            "\n| method | cost | %s, %% | to dense, points | moved | prefill, s | decode, s | cache, MB | front |\n"
            "|---|---:|---:|---:|---:|---:|---:|---:|---|\n",
            t->test.set.bench ? compare_score_name(&t->test.set) : "strict");
    for (size_t i = 0; i < t->test.n_rows; i++) print_row(out.f, &results[i], i == 0);
    fprintf(out.f,
            "\ncost: %s, of dense's; %s, with %s 95 %% interval; to dense: the\n"
            "difference on the same questions, with a paired 95 %% interval (%s); moved: how far answers that dense\n"
            "had right are from dense's, 1 for another answer, less for one that is less sure; seconds and cache: of a\n"
            "question, mean; front: yes where nothing here that costs as little loses less; safer: something cheaper lost as\n"
            "few, but nothing as cheap has less risk (lost and moved).\n\n",
            costs[t->aim.want][t->aim.by_time],
            t->test.set.bench ? "then the set's own figure" : "strict: right of all questions",
            t->test.resampled ? "the bootstrap's" : "Wilson's",
            t->test.resampled ? "bootstrap" : "Agresti and Min");
    print_spent(out.f, t);
    print_lines(out.f, t, results);
    return text_close(&out);
}

/* A text in double quotes as JSON has it is one in YAML, too. */
static void print_quoted(FILE *f, const char *key, const char *value, const char **between) {
    json_t *j = report_text(value);
    char *quoted = j ? json_dumps(j, JSON_ENCODE_ANY) : NULL;
    if (quoted) fprintf(f, "%s%s: %s", *between, key, quoted);
    *between = ", ";
    free(quoted);
    json_decref(j);
}

static void print_parts(FILE *f, const method_line *line, const char *between) {
    bool any = false;
    for (int i = 0; i < METHOD_PARTS; i++) {
        if (!line->part[i]) continue;
        print_quoted(f, method_part_names[i], line->part[i], &between);
        any = true;
    }
    if (!any) print_quoted(f, "prefill", "dense", &between);
}

static void print_line(FILE *f, const tune_result *r) {
    const char *between = "";
    const eval_estimate *difference = &r->row->to_dense.difference;
    fprintf(f, "# %.1f %% of dense's cost, %+.2f points (%+.1f to %+.1f)%s\n- {", 100 * r->point.cost,
            100 * difference->value, 100 * difference->low, 100 * difference->high,
            r->chosen ? ", chosen" : "");
    print_quoted(f, "name", r->row->line->name, &between);
    print_parts(f, r->row->line, between);
    fputs("}\n", f);
}

static void print_heading(FILE *f, const tune_search *t) {
    fprintf(f, "# saccade tune --want %s --lose %g: cost is %s, on %zu test questions.\n",
            tune_want_names[t->aim.want], t->s->lose, costs[t->aim.want][t->aim.by_time],
            t->test.set.n_questions);
}

char *tune_report_methods(const tune_search *t, const tune_result *results) {
    text out;
    if (!text_open(&out)) return NULL;
    print_heading(out.f, t);
    print_line(out.f, chosen_of(t, results));
    for (size_t i = 1; i < t->test.n_rows; i++) /* dense is there without a line */
        if ((results[i].front || results[i].safe) && !results[i].chosen) print_line(out.f, &results[i]);
    return text_close(&out);
}

char *tune_report_config(const tune_search *t, const tune_result *results) {
    text out;
    if (!text_open(&out)) return NULL;
    print_heading(out.f, t);
    fputs("session: {", out.f);
    print_parts(out.f, chosen_of(t, results)->row->line, "");
    fputs("}\n", out.f);
    return text_close(&out);
}

/* ---------------------------------------------------------------- JSON */

static json_t *describe(const tune_result *r) {
    const compare_row *row = r->row;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:{s:f, s:f}}", "name", report_text(row->line->name),
                     "cost", report_real(r->point.cost), "lost", report_nine_digits(r->point.lost), "moved", report_nine_digits(r->point.moved),
                     "cache_bytes", report_nine_digits(r->cache_bytes), "front", r->front, "safe", r->safe, "chosen",
                     r->chosen, "seconds", "prefill", row->seconds.prefill / answered(row), "decode",
                     row->seconds.decode / answered(row));
}

static json_t *describe_spent(const comparison *c) {
    tune_spent s = tune_spent_by(c);
    return json_pack("{s:I, s:{s:f, s:f, s:f, s:f, s:f}}", "answers", (json_int_t)s.answers, "seconds", "total", s.total,
                     "media", s.media, "vision", s.vision, "prefill", s.prefill, "decode", s.decode);
}

json_t *tune_report_json(const tune_search *t, const tune_result *results) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < t->test.n_rows; i++) {
        if (!json_array_append_new(list, describe(&results[i]))) continue;
        json_decref(list);
        list = NULL;
    }
    json_t *choice = json_pack("{s:o, s:o, s:o}", "name", t->chosen ? report_text(t->chosen) : json_null(), "limits",
                               tune_log_limits(t->limits), "used", tune_log_limits(t->used));
    return json_pack("{s:i, s:O, s:I, s:I, s:I, s:I, s:b, s:o, s:o, s:O, s:o, s:o, s:o}", "saccade_tune", 1, "header",
                     t->header, "tried", (json_int_t)t->n_tried, "refused", (json_int_t)t->n_refused,
                     "tuning_questions", (json_int_t)t->n_tuned, "prompt_tokens",
                     (json_int_t)t->prompt_tokens, "cut", t->cut, "tuning", describe_spent(&t->tuning), "testing",
                     describe_spent(&t->test), "decisions", t->log.lines, "choice", choice, "results", list, "test",
                     compare_report_json(&t->test));
}
