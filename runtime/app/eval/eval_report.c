#include "eval_report.h"
#include "eval_run.h"
#include "output.h"
#include "report.h"
#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *response_of(const eval_outcome *o, const eval_video *v, size_t i) {
    return o->records ? eval_record_response(o->records[v->first + i]) : v->questions[i].response;
}

static char letter_of(const eval_outcome *o, const eval_video *v, size_t i) {
    return eval_prompt_letter(o->prompt, &v->questions[i], response_of(o, v, i));
}

sac_status eval_outcome_count(eval_outcome *o, sac_error *err) {
    for (size_t k = 0; k < o->set->n_videos; k++) {
        const eval_video *v = &o->set->videos[k];
        for (size_t i = 0; i < v->n_questions; i++) {
            const char *error = o->records ? eval_record_error(o->records[v->first + i]) : NULL;
            o->n_errors += error != NULL;
            if (!o->first_error) o->first_error = error;
            SAC_TRY(eval_scores_add(&o->scores, v, &v->questions[i], letter_of(o, v, i), err));
        }
    }
    return SAC_OK;
}

/* ---------------------------------------------------------------- the official result */

static json_t *question_result(const eval_outcome *o, const eval_video *v, size_t i) {
    const eval_question *q = &v->questions[i];
    const char *said = response_of(o, v, i);
    char right[2] = {q->answer}, letter[2] = {letter_of(o, v, i)};
    bool open = eval_prompt_is_open(o->prompt);
    return json_pack("{s:s, s:s, s:s, s:[s,s,s,s], s:s, s:s, s:s*}", "question_id", q->id, "task_type",
                     q->task_type, "question", q->text, "options", q->options[0], q->options[1],
                     q->options[2], q->options[3], "answer", right, "response",
                     open   ? letter
                     : said ? said
                            : "",
                     "answer_text", open ? said : NULL);
}

static json_t *video_result(const eval_outcome *o, const eval_video *v) {
    json_t *questions = json_array();
    bool missing = true;
    for (size_t i = 0; questions && i < v->n_questions; i++) {
        missing = missing && !response_of(o, v, i);
        if (!json_array_append_new(questions, question_result(o, v, i))) continue;
        json_decref(questions);
        questions = NULL;
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:s*, s:s*, s:b, s:o}", "video_id", v->id, "duration", v->duration,
                     "domain", v->domain, "sub_category", v->sub_category, "url", v->url, "videoID",
                     v->video_id, "missing", missing, "questions", questions);
}

json_t *eval_outcome_result(const eval_outcome *o) {
    json_t *list = json_array();
    for (size_t k = 0; list && k < o->set->n_videos; k++) {
        if (!json_array_append_new(list, video_result(o, &o->set->videos[k]))) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

/* ---------------------------------------------------------------- the scores */

static json_t *describe_tally(const eval_tally *t) {
    double low, high;
    eval_wilson(t->correct, t->asked, &low, &high);
    return json_pack("{s:I, s:I, s:I, s:f, s:f, s:[f,f]}", "questions", (json_int_t)t->asked, "answered",
                     (json_int_t)t->answered, "correct", (json_int_t)t->correct, "official", eval_official(t),
                     "strict", eval_strict(t), "strict_95", low, high);
}

/* The member of an object that is an object, made when it is not there. */
static json_t *member(json_t *object, const char *key) {
    json_t *there = json_object_get(object, key);
    if (there) return there;
    return json_object_set_new(object, key, json_object()) ? NULL : json_object_get(object, key);
}

static bool put_row(json_t *scores, const eval_score_row *row) {
    json_t *scope = member(scores, row->scope);
    if (!scope) return false;
    if (!*row->key) return !json_object_set_new(scope, row->dimension, describe_tally(&row->tally));
    json_t *dimension = member(scope, row->dimension);
    return dimension && !json_object_set_new(dimension, row->key, describe_tally(&row->tally));
}

json_t *eval_outcome_scores(const eval_outcome *o) {
    const eval_score_row *all = eval_scores_find(&o->scores, "all", "overall", "");
    json_t *scores = json_object();
    bool ok = scores != NULL;
    for (size_t i = 0; ok && i < o->scores.n_rows; i++) ok = put_row(scores, &o->scores.rows[i]);
    if (ok)
        return json_pack("{s:I, s:I, s:I, s:o}", "questions", (json_int_t)(all ? all->tally.asked : 0),
                         "answered", (json_int_t)(all ? all->tally.answered : 0), "errors",
                         (json_int_t)o->n_errors, "scores", scores);
    json_decref(scores);
    return NULL;
}

/* ---------------------------------------------------------------- the table */

static void print_row(const char *name, const eval_tally *t) {
    char line[256];
    double low, high;
    eval_wilson(t->correct, t->asked, &low, &high);
    int n =
        snprintf(line, sizeof line,
                 "  %-28.60s %9" PRId64 " %9" PRId64 " %8" PRId64 "   %6.2f %%   %6.2f %%   %6.2f to %6.2f\n",
                 name, t->asked, t->answered, t->correct, 100 * eval_official(t), 100 * eval_strict(t),
                 100 * low, 100 * high);
    if (n > 0) output_piece(line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

static void print_dimension(const eval_scores *s, const char *dimension, const char *title) {
    printf("%s\n", title);
    for (size_t i = 0; i < s->n_rows; i++)
        if (!strcmp(s->rows[i].scope, "all") && !strcmp(s->rows[i].dimension, dimension))
            print_row(s->rows[i].key, &s->rows[i].tally);
}

void eval_outcome_print(const eval_outcome *o) {
    static const char *const durations[] = {"short", "medium", "long"};
    printf("%-30s %9s %9s %8s   %8s   %8s   %s\n", "", "questions", "answered", "correct", "official",
           "strict", "strict, 95 % interval");
    const eval_score_row *row = eval_scores_find(&o->scores, "all", "overall", "");
    if (row) print_row("all", &row->tally);
    printf("duration\n");
    for (size_t i = 0; i < SAC_COUNT(durations); i++)
        if ((row = eval_scores_find(&o->scores, durations[i], "overall", "")))
            print_row(durations[i], &row->tally);
    print_dimension(&o->scores, "domain", "domain");
    print_dimension(&o->scores, "sub_category", "sub-category");
    print_dimension(&o->scores, "task_type", "task type");
}
