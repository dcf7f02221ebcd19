/* eval_marks.h - a benchmark's answers scored: a mark a question, the counts its own tables have, and what is written of
 * them. Video-MME has its own (eval_report.h). */
#ifndef APP_EVAL_MARKS_H
#define APP_EVAL_MARKS_H

#include "eval_bench.h"

/* All questions (dimension and value ""), or those of one value of a dimension. */
typedef struct eval_count {
    const char *dimension, *value;
    int64_t questions, answered, drawn;
    double score; /* sum */
    eval_figure figures[EVAL_FIGURES_MAX];
    size_t n_figures;
} eval_count;

typedef struct eval_marks {
    const eval_set *set;
    eval_answers answers;
    eval_mark *marks;   /* [answers.n] */
    eval_count *counts; /* the first is of all */
    size_t n_counts;
    int64_t n_errors, n_unscored; /* could not be asked; the file does not tell the answer */
    const char *first_error;
    char (*letters)[2]; /* what texts of options became, with the prompt `open` */
} eval_marks;

/* records: [set->n_questions], of eval_run; borrowed, as the set is. open: the text of an option was asked for; it counts
 * as its letter. On failure, too, eval_marks_free frees what there is. */
sac_status eval_marks_make(eval_marks *m, const eval_set *set, json_t *const *records, bool open,
                           sac_error *err);
void eval_marks_free(eval_marks *m);

/* Is question i in the counts: is its answer known, and is it scored for itself? */
bool eval_marks_counts(const eval_marks *m, size_t i);

/* What the benchmark itself gives as the result, 0 to 1 (CIDEr 0 to 10, MME points). */
double eval_marks_main(const eval_marks *m);

/* By name, in percent (CIDEr and points as they are): "score" (the main one), one of the scorer's figures, or a value of a
 * dimension; NAN where there is none. */
double eval_marks_figure(const eval_marks *m, const char *name);

/* {"set", "questions", "answered", "errors", "score", "figure", "figures": {...}, "by": {dimension: {value: {...}}}}. NULL
 * = out of memory. */
json_t *eval_marks_scores(const eval_marks *m);

/* [{"question_id", "question", "options", "answer", "response", "said", "score", dimensions ...}] */
json_t *eval_marks_result(const eval_marks *m);

/* The table, to standard output. */
void eval_marks_print(const eval_marks *m);

#endif
