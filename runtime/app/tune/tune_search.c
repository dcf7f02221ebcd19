#define _GNU_SOURCE
#include "clock.h"
#include "eval_split.h"
#include "report.h"
#include "run_files.h"
#include "status.h"
#include "tune_open.h"
#include "tune_refine.h"
#include "tune_search.h"
#include "tune_time.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_QUESTIONS = 8, /* by which dense tells how long prompts are and how long an answer takes */
    PARTS = 4,
    TOGETHER = 4 /* questions of a video, where its keys and values are kept from one to the next */
};

/* ---------------------------------------------------------------- dense first */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median prompt and mean seconds of an answer whose video is encoded already. */
static sac_status measure(const comparison *c, const bool *questions, double *prompt, double *seconds,
                          sac_error *err) {
    double *tokens = calloc(c->set.n_questions, sizeof *tokens), sum = 0;
    size_t n = 0;
    const char *first_error = NULL;
    if (!tokens) return sac_fail_no_memory(err);
    for (size_t i = 0; i < c->set.n_questions; i++) {
        const json_t *r = c->rows[0].records[i], *s = json_object_get(r, "seconds");
        if (!questions[i] || !r) continue;
        if (eval_record_error(r)) first_error = first_error ? first_error : eval_record_error(r);
        if (eval_record_error(r)) continue;
        tokens[n++] = json_number_value(json_object_get(r, "prompt_tokens"));
        sum +=
            json_number_value(json_object_get(s, "total")) - json_number_value(json_object_get(s, "vision"));
    }
    sac_status st = n ? SAC_OK
                      : sac_fail(err, SAC_NOT_FOUND, "none of the first questions could be asked: %s",
                                 first_error ? first_error : "the set is empty");
    if (n) qsort(tokens, n, sizeof *tokens, by_value);
    *prompt = n ? tokens[n / 2] : 0;
    *seconds = n ? sum / (double)n : 0;
    free(tokens);
    return st;
}

/* The first n; rotations of one question all or none. */
static void choose_first(const eval_set *set, const size_t *order, size_t n, bool *questions) {
    size_t n_all = set->n_questions;
    memset(questions, 0, n_all * sizeof *questions);
    for (size_t i = 0; i < n_all; i++) {
        if (i >= n && !(i > 0 && eval_set_is_rotation(set, order[i], order[i - 1]))) break;
        questions[order[i]] = true;
    }
}

/* Dense is asked the first questions before any setting is made up, for budgets are shares of a prompt. */
static sac_status ask_dense(tune_search *t, const size_t *order, bool *questions, double *seconds,
                            sac_error *err) {
    comparison dense = t->tuning; /* borrows all but the rows */
    dense.list.n = 1;
    dense.rows = NULL;
    dense.n_rows = 0;
    double prompt = 0;
    choose_first(&t->tuning.set, order, FIRST_QUESTIONS, questions);
    comparison_choice choice = {.questions = questions};
    sac_status st = comparison_open_rows(&dense, err);
    if (st == SAC_OK) st = comparison_open_journals(&dense, t->s->out, "tuning", err);
    dense.todo = comparison_missing(&dense, &choice);
    if (st == SAC_OK) st = comparison_ask(&dense, &choice, err);
    if (st == SAC_OK) st = measure(&dense, questions, &prompt, seconds, err);
    st = comparison_close_journals(&dense, st, err);
    t->prompt_tokens = (int64_t)prompt;
    t->tuning.line = dense.line;
    for (size_t i = 0; i < dense.n_rows; i++) compare_row_free(&dense.rows[i], dense.set.n_questions);
    free(dense.rows);
    return st;
}

/* ---------------------------------------------------------------- settings */

/* Two lines may say the same in other words: defaults, for one. */
static bool are_same(const compare_row *a, const compare_row *b) {
    const sac_session_method_lines *x = &a->did.lines, *y = &b->did.lines;
    return !strcmp(x->prefill, y->prefill) && !strcmp(x->kv, y->kv) && !strcmp(x->decode, y->decode) &&
           !strcmp(x->rope, y->rope) && !strcmp(x->reduce, y->reduce);
}

/* Rows from number `from` on take part unless they were refused or are one before them. */
static void enter_rows(tune_search *t, size_t from) {
    const comparison *c = &t->tuning;
    for (size_t i = from; i < c->n_rows; i++) {
        t->alive[i] = c->rows[i].refused == SAC_OK;
        for (size_t k = 0; k < i && t->alive[i]; k++)
            t->alive[i] = c->rows[k].refused != SAC_OK || !are_same(&c->rows[k], &c->rows[i]);
        t->n_tried += t->alive[i];
        t->n_refused += c->rows[i].refused != SAC_OK;
    }
}

static sac_status open_settings(tune_search *t, sac_error *err) {
    comparison *c = &t->tuning;
    SAC_TRY(tune_table_add(&c->list, t->aim.want, t->prompt_tokens, err));
    size_t most = t->s->tries ? (size_t)t->s->tries + 1 : c->list.n;
    while (c->list.n > most) method_line_free(&c->list.lines[--c->list.n]);
    SAC_TRY(comparison_open_rows(c, err));
    if (!(t->alive = calloc(METHOD_LIST_MAX_LINES + 1, sizeof *t->alive))) return sac_fail_no_memory(err);
    enter_rows(t, 1);
    return t->n_tried ? SAC_OK
                      : sac_fail(err, SAC_UNSUPPORTED, "%s: takes no method for --want %s", c->r->model_path,
                                 tune_want_names[t->aim.want]);
}

static sac_status make_plan(tune_search *t, double seconds, sac_error *err) {
    if (!tune_log_plan(&t->log, &t->plan, &t->prompt_tokens)) {
        tune_bounds b = {.settings = t->n_tried,
                         .tuning_questions = t->tuning.set.n_questions,
                         .test_questions = t->test.set.n_questions,
                         .fewest = t->s->reuse ? 4 * TOGETHER : 4,
                         .answers =
                             0.8 * (tune_seconds_allowed(t) - tune_seconds_used(t)) / fmax(seconds, 1e-3)};
        t->plan = tune_make_plan(&b);
        SAC_TRY(tune_log_write_plan(&t->log, &t->plan, t->prompt_tokens, err));
    }
    size_t left = t->plan.settings[0];
    for (size_t i = 1; i < t->tuning.n_rows; i++) t->alive[i] = t->alive[i] && left && left--;
    t->n_tried = t->plan.settings[0];
    tune_say_plan(t, seconds);
    return SAC_OK;
}

/* ---------------------------------------------------------------- rungs */

/* Of the questions those that all of these rows have a record of. */
static size_t answered_by_all(const comparison *c, const bool *rows, bool *questions) {
    size_t n = 0;
    for (size_t q = 0; q < c->set.n_questions; q++) {
        for (size_t i = 0; i < c->n_rows && questions[q]; i++)
            questions[q] = (i && !rows[i]) || c->rows[i].records[q];
        n += questions[q];
    }
    return n;
}

typedef struct ranking {
    tune_point *points;
    size_t *row; /* of each point */
    bool *keep;
    size_t n, n_counted; /* n_counted: questions that are in the set's figure */
} ranking;

/* What has been asked by now. */
static sac_status score_rows(tune_search *t, sac_error *err) {
    comparison *c = &t->tuning;
    for (size_t i = 0; i < c->n_rows; i++)
        if (i == 0 || t->alive[i])
            SAC_TRY(compare_score_make(&c->rows[i].score, &c->task, c->rows[i].records, err));
    return SAC_OK;
}

static sac_status rank_rows(tune_search *t, const bool *questions, ranking *k, sac_error *err) {
    const comparison *c = &t->tuning;
    *k = (ranking){calloc(c->n_rows, sizeof *k->points), calloc(c->n_rows, sizeof *k->row),
                   calloc(c->n_rows, sizeof *k->keep), 0, 0};
    if (!k->points || !k->row || !k->keep) return sac_fail_no_memory(err);
    SAC_TRY(score_rows(t, err));
    for (size_t i = 0; i < c->set.n_questions; i++)
        k->n_counted += questions[i] && !isnan(c->rows[0].score.of[i]);
    for (size_t i = 1; i < c->n_rows; i++) {
        if (!t->alive[i]) continue;
        k->points[k->n] = tune_cost(c, i, questions, t->aim);
        k->row[k->n++] = i;
    }
    return SAC_OK;
}

static void free_ranking(ranking *k) {
    free(k->points);
    free(k->row);
    free(k->keep);
}

/* One answer more may be lost by chance alone while few were asked; the last rung goes by what was asked for. */
static double tolerated(const tune_search *t, size_t n_questions, bool last) {
    return t->s->lose / 100 * (double)n_questions + (last ? 0 : 1);
}

/* Answers may have moved as far as they may be lost, and by a tenth of a point. */
static tune_limits limits_of(const tune_search *t, size_t n_questions, bool last) {
    return (tune_limits){tolerated(t, n_questions, last),
                         tolerated(t, n_questions, true) + 0.001 * (double)n_questions};
}

/* What would be chosen by now goes on in any case. judged: what was known of each setting, for the log. */
static sac_status keep_best(tune_search *t, const bool *questions, size_t n_keep, json_t **judged, sac_error *err) {
    ranking k;
    sac_status st = rank_rows(t, questions, &k, err);
    tune_limits limits = limits_of(t, k.n_counted, true);
    size_t chosen = st == SAC_OK ? tune_choose(k.points, k.n, limits, NULL) : SIZE_MAX;
    if (st == SAC_OK && !tune_keep(k.points, k.n, n_keep, tolerated(t, k.n_counted, false), chosen, k.keep))
        st = sac_fail_no_memory(err);
    for (size_t i = 0; i < k.n && st == SAC_OK; i++) t->alive[k.row[i]] = k.keep[i];
    if (st == SAC_OK && !(*judged = tune_log_judged(&t->tuning, k.points, k.row, k.n, limits)))
        st = sac_fail_no_memory(err);
    free_ranking(&k);
    return st;
}

static sac_status choose(tune_search *t, const bool *questions, sac_error *err) {
    ranking k;
    sac_status st = rank_rows(t, questions, &k, err);
    t->limits = limits_of(t, k.n_counted, true);
    size_t best = st == SAC_OK ? tune_choose(k.points, k.n, t->limits, &t->used) : SIZE_MAX;
    if (best < k.n && !(t->chosen = strdup(t->tuning.rows[k.row[best]].line->name)))
        st = sac_fail_no_memory(err);
    free_ranking(&k);
    return st;
}

/* A rung: all that are alive are asked the first `end` questions, of which they have `from`. In parts, each about as many
 * sources as can be: when time is up, what all were asked is about more than the first few. */
static sac_status ask_rung(tune_search *t, const size_t *order, size_t k, size_t from, size_t end,
                           size_t n_keep, bool *questions, bool *rows, sac_error *err) {
    comparison *c = &t->tuning;
    memcpy(rows, t->alive, c->n_rows * sizeof *rows);
    rows[0] = true;
    comparison_choice choice = {rows, questions, tune_tuning_is_over, t};
    bool decided = tune_log_rung(&t->log, k, c, t->alive);
    for (size_t part = 1; part <= PARTS; part++) {
        choose_first(&c->set, order, from + (end - from) * part / PARTS, questions);
        if (!decided) SAC_TRY(comparison_ask(c, &choice, err));
    }
    t->cut = decided ? tune_log_was_cut(&t->log, k) : comparison_missing(c, &choice) > 0;
    t->n_tuned = answered_by_all(c, rows, questions);
    if (!t->n_tuned)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "--minutes %g is too short: no question was asked of all settings; give more, or "
                        "fewer --tries",
                        t->s->minutes);
    if (t->cut) n_keep = t->plan.finalists; /* the last rung, then */
    json_t *judged = NULL;
    if (decided) return SAC_OK;
    SAC_TRY(keep_best(t, questions, n_keep, &judged, err));
    return tune_log_write_rung(&t->log, k, c, t->alive, t->n_tuned, t->cut, judged, err);
}

/* Rows of those that are alive, what would be chosen first. */
static sac_status best_rows(tune_search *t, const bool *questions, size_t *best, size_t *n_best,
                            sac_error *err) {
    ranking k;
    sac_status st = rank_rows(t, questions, &k, err);
    *n_best = st == SAC_OK ? k.n : 0;
    if (st == SAC_OK) tune_order(k.points, k.n, limits_of(t, k.n_counted, false), best);
    for (size_t i = 0; i < *n_best; i++) best[i] = k.row[best[i]];
    free_ranking(&k);
    return st;
}

/* Lines near the best, those that an earlier run wrote down where there was one. */
static sac_status add_refined(tune_search *t, const bool *questions, sac_error *err) {
    comparison *c = &t->tuning;
    size_t best[METHOD_LIST_MAX_LINES], n_best, n_added, n_before = c->n_rows;
    bool known = false;
    SAC_TRY(tune_log_refined(&t->log, &c->list, &known, err));
    if (!known) {
        SAC_TRY(best_rows(t, questions, best, &n_best, err));
        SAC_TRY(tune_refine(&c->list, best, n_best, t->plan.refined, &n_added, err));
        SAC_TRY(tune_log_write_refined(&t->log, &c->list, n_before, err));
    }
    SAC_TRY(comparison_open_rows(c, err));
    SAC_TRY(comparison_open_journals(c, t->s->out, "tuning", err));
    enter_rows(t, n_before);
    return SAC_OK;
}

static sac_status climb(tune_search *t, const size_t *order, bool *questions, bool *rows, sac_error *err) {
    const tune_plan *p = &t->plan;
    for (size_t k = 0; k < p->n_rungs && !t->cut; k++) {
        size_t n_keep = k + 1 < p->n_rungs ? p->settings[k + 1] : p->finalists;
        SAC_TRY(ask_rung(t, order, k, k ? p->questions[k - 1] : 0, p->questions[k], n_keep, questions, rows,
                         err));
    }
    if (!t->cut && p->refined) {
        SAC_TRY(add_refined(t, questions, err));
        SAC_TRY(ask_rung(t, order, p->n_rungs, 0, p->questions[p->n_rungs - 1], p->finalists, questions, rows,
                         err));
    }
    return choose(t, questions, err);
}

/* ---------------------------------------------------------------- the test */

static sac_status copy_line(method_list *list, const method_line *line, sac_error *err) {
    method_line copy = {.name = strdup(line->name)};
    size_t at;
    bool ok = copy.name != NULL;
    for (int i = 0; i < METHOD_PARTS && ok; i++)
        if (line->part[i]) ok = (copy.part[i] = strdup(line->part[i])) != NULL;
    if (ok) return method_list_add(list, &copy, false, &at, err);
    method_line_free(&copy);
    return sac_fail_no_memory(err);
}

/* In parts, as a rung is asked. */
static sac_status ask_test(tune_search *t, const size_t *order, bool *questions, sac_error *err) {
    comparison *c = &t->test;
    for (size_t i = 0; i < t->tuning.n_rows; i++)
        if (i == 0 || t->alive[i]) SAC_TRY(copy_line(&c->list, t->tuning.rows[i].line, err));
    SAC_TRY(comparison_open_rows(c, err));
    SAC_TRY(comparison_open_journals(c, t->s->out, "test", err));
    t->asked_seconds += tune_seconds_asked(c);
    c->line = t->tuning.line;
    c->done = t->tuning.done;
    comparison_choice choice = {NULL, questions, tune_time_is_up, t};
    choose_first(&c->set, order, t->plan.test_questions, questions);
    c->todo = c->done + comparison_missing(c, &choice);
    for (size_t part = 1; part <= PARTS; part++) {
        choose_first(&c->set, order, (t->plan.test_questions * part + PARTS - 1) / PARTS, questions);
        SAC_TRY(comparison_ask(c, &choice, err));
    }
    return SAC_OK;
}

/* Judged by what all finalists were asked. */
static sac_status judge(tune_search *t, bool *questions, bool *rows, sac_error *err) {
    comparison *c = &t->test;
    size_t n = 0, want = 0;
    for (size_t q = 0; q < c->set.n_questions; q++) want += questions[q];
    for (size_t i = 0; i < c->n_rows; i++) rows[i] = c->rows[i].refused == SAC_OK;
    n = answered_by_all(c, rows, questions);
    t->cut = t->cut || n < want;
    if (!n)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "--minutes %g is too short: no test question was asked of all settings; give more, "
                        "or fewer --tries",
                        t->s->minutes);
    SAC_TRY(comparison_keep(c, questions, err));
    return comparison_count(c, err);
}

/* ---------------------------------------------------------------- all of it */

static sac_status tune(tune_search *t, size_t *order, bool *questions, bool *rows, sac_error *err) {
    comparison *c = &t->tuning;
    const size_t block = t->s->reuse ? TOGETHER : 1;
    SAC_TRY(eval_spread(&c->set, t->s->seed, block, order, err));
    double seconds = 0;
    SAC_TRY(ask_dense(t, order, questions, &seconds, err));
    SAC_TRY(open_settings(t, err));
    SAC_TRY(comparison_open_journals(c, t->s->out, "tuning", err));
    t->asked_seconds = tune_seconds_asked(c);
    t->start_ns = sac_now_ns();
    SAC_TRY(make_plan(t, seconds, err));
    c->todo = (int64_t)(tune_answers(&t->plan, false) + tune_answers(&t->plan, true));
    SAC_TRY(climb(t, order, questions, rows, err));
    SAC_TRY(eval_spread(&t->test.set, t->s->seed, block, order, err));
    SAC_TRY(ask_test(t, order, questions, err));
    return judge(t, questions, rows, err);
}

sac_status tune_search_run(tune_search *t, sac_error *err) {
    t->start_ns = sac_now_ns();
    t->tuning.r = t->test.r = &t->r;
    t->tuning.s = t->test.s = t->s;
    SAC_TRY(tune_open_parts(t, err));
    SAC_TRY(eval_open_model(&t->r, t->s, &t->tuning.task, err));
    t->r.sampling.logprobs = true;
    t->r.sampling.top_logprobs = 2; /* tune_point.moved */
    t->header = tune_make_header(t);
    SAC_TRY(tune_log_open(&t->log, t->s->out, t->header, err));
    size_t n = t->tuning.set.n_questions + t->test.set.n_questions;
    size_t *order = calloc(n, sizeof *order);
    bool *questions = calloc(n, sizeof *questions), *rows = calloc(METHOD_LIST_MAX_LINES + 1, sizeof *rows);
    sac_status st =
        order && questions && rows ? tune(t, order, questions, rows, err) : sac_fail_no_memory(err);
    free(order);
    free(questions);
    free(rows);
    st = comparison_close_journals(&t->tuning, st, err);
    return comparison_close_journals(&t->test, st, err);
}

void tune_search_free(tune_search *t) {
    sac_error ignored;
    tune_log_close(&t->log, &ignored);
    comparison_free(&t->tuning);
    comparison_free(&t->test);
    run_close(&t->r);
    json_decref(t->header);
    free(t->alive);
    free(t->chosen);
}
