/* eval_score.h - from answers to accuracy, by two rules.
 *
 * Official: as Video-MME's own script scores a result file. The letter is found by removing fixed phrases
 * ("The best answer is", ...) and taking the first capital A to D that is left, wherever it stands; a
 * question without such a letter is left out of the count, so the accuracy is of the answered ones. Two pairs
 * of the script's phrases lack their comma, so that "The best option is" and "Best answer:" are never
 * removed: "Best answer: C" counts as B, and "Answer: C" as A. These quirks are kept, because a score is only
 * comparable with them.
 *
 * Strict: the same letters, over all questions; one without an answer counts as wrong. */
#ifndef APP_EVAL_SCORE_H
#define APP_EVAL_SCORE_H

#include "eval_set.h"

/* 'A'..'D', or 0 when the official rule finds no answer in the response (NULL = none). */
char eval_letter(const char *response);

/* The option whose text the response is: white space around both, one full stop at their end and the case of
 * ASCII letters do not count. 0 = none, or more than one. */
char eval_letter_of_text(const eval_question *q, const char *response);

/* The same text, by that rule; never for empty ones. */
bool eval_same_text(const char *a, const char *b);

typedef struct eval_tally {
    int64_t asked, answered, correct;
} eval_tally;

double eval_official(const eval_tally *t); /* correct / answered; 0 when none is answered */
double eval_strict(const eval_tally *t);   /* correct / asked */

/* 95 % confidence interval of k of n by Wilson's score, in 0..1; all of it when n is 0. */
void eval_wilson(int64_t k, int64_t n, double *low, double *high);

/* The same n questions asked in two ways: answered rightly only the first way (lost), only the second
 * (gained). */
typedef struct eval_pairs {
    int64_t n, gained, lost;
} eval_pairs;

/* Difference of the two accuracies, (gained - lost) / n, and its 95 % confidence interval for paired
 * proportions: Wald's after half a question was added to each of the four cells (right or wrong, either way),
 * by Agresti and Min, Statistics in Medicine 24, 2005. Unlike Wald's own it has a width when the two never
 * differ, and it covers 95 % for small n too. It need not be symmetric about the difference. */
double eval_paired(const eval_pairs *p, double *low, double *high);

/* Two-sided p of McNemar's exact test: how likely the questions on which the two differ are shared out at
 * least this unevenly by a fair coin. */
double eval_mcnemar(const eval_pairs *p);

/* One line of the scores: scope "all" or a duration; dimension "overall", "domain", "sub_category" or
 * "task_type"; key its value ("" for overall). */
typedef struct eval_score_row {
    const char *scope, *dimension, *key;
    eval_tally tally;
} eval_score_row;

typedef struct eval_scores {
    eval_score_row *rows; /* in order of first appearance; texts belong to the set */
    size_t n_rows;
} eval_scores;

/* Counts one question. letter: 0 = no answer. */
sac_status eval_scores_add(eval_scores *s, const eval_video *v, const eval_question *q, char letter,
                           sac_error *err);

/* The row, or NULL. */
const eval_score_row *eval_scores_find(const eval_scores *s, const char *scope, const char *dimension,
                                       const char *key);
void eval_scores_free(eval_scores *s);

#endif
