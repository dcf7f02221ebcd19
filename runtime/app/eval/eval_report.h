/* eval_report.h - what comes out of a set: the official result file, the scores as JSON, the table. */
#ifndef APP_EVAL_REPORT_H
#define APP_EVAL_REPORT_H

#include "eval_prompt.h"
#include "eval_score.h"

#include <jansson.h>

/* A set with its answers, however they came about. */
typedef struct eval_outcome {
    const eval_set *set;
    json_t *const
        *records; /* [set->n_questions], of eval_run; NULL: the responses are in the set (a result file) */
    eval_prompt prompt;
    eval_scores scores;
    int64_t n_errors;
    const char *first_error; /* text, belongs to the records; NULL = none */
} eval_outcome;

/* Letters and tallies. On failure, too, eval_scores_free(&o->scores) frees what there is. */
sac_status eval_outcome_count(eval_outcome *o, sac_error *err);

/* The annotation with a "response" for each question, as Video-MME's script wants it. Where the text of an
 * option was asked for, the response is its letter and "answer_text" what was said. A question without answer
 * has the response "", a video none of whose questions could be asked has "missing": true. NULL = out of
 * memory. */
json_t *eval_outcome_result(const eval_outcome *o);

/* {"questions", "answered", "errors", "scores": {scope: {dimension: {key: {...}}}}}; NULL = out of memory. */
json_t *eval_outcome_scores(const eval_outcome *o);

/* The table, to standard output. */
void eval_outcome_print(const eval_outcome *o);

#endif
