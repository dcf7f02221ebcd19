#include "compare_score.h"
#include "eval_score.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *compare_score_name(const eval_set *set) {
    if (!set->bench) return "strict accuracy";
    return set->bench->main ? "mean score" : set->bench->figure; /* points of a scorer's own are no mean */
}

void compare_score_free(compare_score *s) {
    eval_scores_free(&s->outcome.scores);
    eval_marks_free(&s->marks);
    free(s->of);
    *s = (compare_score){0};
}

/* ---------------------------------------------------------------- scores */

static void count(compare_score *s, size_t at, double score, bool answered) {
    s->of[at] = score;
    s->n_counted++;
    s->n_answered += answered;
    s->sum += score;
}

static sac_status score_videos(compare_score *s, const eval_task *t, json_t *const *records, sac_error *err) {
    s->outcome = (eval_outcome){.set = t->set, .records = records, .prompt = t->prompt};
    SAC_TRY(eval_outcome_count(&s->outcome, err));
    s->n_errors = s->outcome.n_errors;
    s->first_error = s->outcome.first_error;
    for (size_t i = 0; i < t->set->n_videos; i++) {
        const eval_video *v = &t->set->videos[i];
        for (size_t k = 0; k < v->n_questions; k++) {
            const char *said = eval_record_response(records[v->first + k]);
            char letter = eval_prompt_letter(t->prompt, &v->questions[k], said);
            count(s, v->first + k, letter == v->questions[k].answer, letter != 0);
        }
    }
    return SAC_OK;
}

static sac_status score_bench(compare_score *s, const eval_task *t, json_t *const *records, sac_error *err) {
    SAC_TRY(eval_marks_make(&s->marks, t->set, records, eval_prompt_is_open(t->prompt), err));
    s->n_errors = s->marks.n_errors;
    s->first_error = s->marks.first_error;
    for (size_t i = 0; i < t->set->n_questions; i++) {
        const eval_mark *mark = &s->marks.marks[i];
        s->of[i] = (double)NAN;
        if (eval_marks_counts(&s->marks, i)) count(s, i, mark->score, mark->answered);
    }
    return SAC_OK;
}

sac_status compare_score_make(compare_score *s, const eval_task *t, json_t *const *records, sac_error *err) {
    compare_score_free(s);
    s->n_asked = (int64_t)t->set->n_questions;
    if (!(s->of = calloc(t->set->n_questions + 1, sizeof *s->of))) return sac_fail_no_memory(err);
    return t->set->bench ? score_bench(s, t, records, err) : score_videos(s, t, records, err);
}

static bool is_whole(double v) {
    return !(v > 0) || !(v < 1 || v > 1);
}

bool compare_score_is_fraction(const compare_score *s, const eval_set *set) {
    if (set->bench && set->bench->mean_over) return true;
    for (size_t i = 0; i < set->n_questions; i++)
        if (!isnan(s->of[i]) && !is_whole(s->of[i])) return true;
    return false;
}

/* ---------------------------------------------------------------- samples */

/* Scores or differences of some questions, by the task that the figure is a mean over. */
typedef struct sample {
    double *score;
    size_t *group;
    const char **names; /* of groups */
    eval_sample of;
} sample;

static void free_sample(sample *s) {
    free(s->score);
    free(s->group);
    free((void *)s->names);
}

static sac_status open_sample(sample *s, const eval_set *set, sac_error *err) {
    size_t n = set->n_questions + 1;
    *s = (sample){.score = malloc(n * sizeof *s->score)};
    bool by_task = set->bench && set->bench->mean_over;
    if (by_task) s->group = malloc(n * sizeof *s->group), s->names = malloc(n * sizeof *s->names);
    s->of = (eval_sample){.score = s->score, .group = s->group};
    if (s->score && (!by_task || (s->group && s->names))) return SAC_OK;
    free_sample(s);
    return sac_fail_no_memory(err);
}

static const char *task_of(const eval_set *set, size_t question) {
    const eval_item *item = set->videos[0].questions[question].item;
    for (size_t i = 0; i < item->n_dimensions; i++)
        if (!strcmp(item->dimensions[i].name, set->bench->mean_over)) return item->dimensions[i].value;
    return NULL;
}

/* A question that has no task is in no mean over tasks. */
static void add(sample *s, const eval_set *set, size_t question, double score) {
    size_t k = 0;
    if (s->group) {
        const char *task = task_of(set, question);
        if (!task) return;
        while (k < s->of.n_groups && strcmp(s->names[k], task)) k++;
        if (k == s->of.n_groups) s->names[s->of.n_groups++] = task;
        s->group[s->of.n] = k;
    }
    s->score[s->of.n++] = score;
}

/* ---------------------------------------------------------------- figures */

static eval_estimate by_wilson(double right, int64_t n) {
    eval_estimate e = {.value = n ? right / (double)n : 0};
    eval_wilson((int64_t)llround(right), n, &e.low, &e.high);
    return e;
}

static double largest(const sample *s) {
    double most = 1;
    for (size_t i = 0; i < s->of.n; i++) most = fmax(most, s->score[i]);
    return most;
}

static sac_status resample(compare_score *s, const eval_set *set, bool answered, eval_estimate *out,
                           sac_error *err) {
    sample k;
    SAC_TRY(open_sample(&k, set, err));
    for (size_t i = 0; i < set->n_questions; i++)
        if (!isnan(s->of[i]) && (!answered || !set->bench || s->marks.marks[i].answered))
            add(&k, set, i, s->of[i]);
    if (answered) k.of.group = NULL;
    sac_status st = eval_bootstrap(&k.of, 0, largest(&k), out, err);
    free_sample(&k);
    return st;
}

sac_status compare_score_judge(compare_score *s, const eval_set *set, bool by_draws, sac_error *err) {
    if (by_draws) {
        SAC_TRY(resample(s, set, false, &s->figure, err));
        return resample(s, set, true, &s->answered, err);
    }
    s->figure = by_wilson(s->sum, s->n_counted);
    s->answered = by_wilson(s->sum, s->n_answered);
    return SAC_OK;
}

/* ---------------------------------------------------------------- pairs */

static sac_status judge_pairs(const sample *k, bool by_draws, compare_pairs *out, sac_error *err) {
    if (by_draws) {
        SAC_TRY(eval_bootstrap_pairs(&k->of, &out->difference, err));
        return eval_sign_flip(&k->of, &out->p, err);
    }
    const eval_pairs p = {out->n, out->gained, out->lost};
    out->difference.value = eval_paired(&p, &out->difference.low, &out->difference.high);
    out->p = eval_mcnemar(&p);
    return SAC_OK;
}

sac_status compare_score_pairs(const compare_score *now, json_t *const *now_records,
                               const compare_score *then, json_t *const *then_records, const eval_set *set,
                               bool by_draws, compare_pairs *out, sac_error *err) {
    sample k;
    *out = (compare_pairs){0};
    SAC_TRY(open_sample(&k, set, err));
    for (size_t i = 0; i < set->n_questions; i++) {
        if (isnan(now->of[i]) || isnan(then->of[i])) continue;
        if (eval_record_error(now_records[i]) || eval_record_error(then_records[i])) continue;
        out->n++;
        out->gained += now->of[i] > then->of[i];
        out->lost += now->of[i] < then->of[i];
        add(&k, set, i, now->of[i] - then->of[i]);
    }
    sac_status st = judge_pairs(&k, by_draws, out, err);
    free_sample(&k);
    return st;
}
