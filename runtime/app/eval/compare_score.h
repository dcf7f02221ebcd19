/* compare_score.h - what the answers of a comparison's lines are worth, by the set's own rule, and how sure that is.
 *
 * Where every answer is right or wrong and the set's figure is the mean over questions: Wilson's interval, the paired one of
 * Agresti and Min, McNemar's exact test (eval_score.h). Where an answer may be half right (VQA, ANLS, CIDEr), or the figure is
 * a mean over tasks (MLVU): the bootstrap and the randomisation test (eval_resample.h). One of the two for all lines of a
 * comparison. */
#ifndef APP_COMPARE_SCORE_H
#define APP_COMPARE_SCORE_H

#include "eval_marks.h"
#include "eval_report.h"
#include "eval_resample.h"
#include "eval_run.h"

/* The same questions answered in two ways: how many the second way scores higher (gained) or lower (lost), and the
 * difference of the set's figure. */
typedef struct compare_pairs {
    int64_t n, gained, lost;
    eval_estimate difference;
    double p; /* that it is by chance */
} compare_pairs;

typedef struct compare_score {
    eval_outcome outcome;                             /* of Video-MME, or */
    eval_marks marks;                                 /* of another benchmark */
    double *of;                                       /* [questions], 0 without an answer; NAN: in no count */
    int64_t n_asked, n_counted, n_answered, n_errors; /* asked: all of the set */
    double sum;                                       /* over those that count */
    eval_estimate figure;                             /* the set's own: strict accuracy of Video-MME */
    eval_estimate answered;  /* mean over questions that were answered (Video-MME's official rule) */
    const char *first_error; /* of the records */
} compare_score;

/* Scores records[set->n_questions] as they are now; what was scored before goes. Questions without a record count as not
 * answered. On failure, too, compare_score_free frees what there is. */
sac_status compare_score_make(compare_score *s, const eval_task *t, json_t *const *records, sac_error *err);
void compare_score_free(compare_score *s);

/* Do scores need resampling: is one a fraction, or the figure a mean over tasks? */
bool compare_score_is_fraction(const compare_score *s, const eval_set *set);

/* The figures and their intervals; `resample`: by the bootstrap. */
sac_status compare_score_judge(compare_score *s, const eval_set *set, bool resample, sac_error *err);

/* now against then, over questions that both could be asked. */
sac_status compare_score_pairs(const compare_score *now, json_t *const *now_records,
                               const compare_score *then, json_t *const *then_records, const eval_set *set,
                               bool resample, compare_pairs *out, sac_error *err);

/* What the set calls its figure: "strict accuracy", "M-Avg". */
const char *compare_score_name(const eval_set *set);

#endif
