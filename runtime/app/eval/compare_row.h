/* compare_row.h - a method line of a comparison: its session, its journal, and what came of it. */
#ifndef APP_COMPARE_ROW_H
#define APP_COMPARE_ROW_H

#include "compare_score.h"
#include "eval_journal.h"
#include "eval_marks.h"
#include "eval_open.h"
#include "method_list.h"
#include "method_summary.h"

typedef struct compare_row {
    const method_line *line;
    sac_session_config config;
    sac_status refused; /* SAC_OK, or why there is no session with these methods */
    sac_error why;
    json_t *header;   /* of its journal */
    char *file;       /* name of its journal */
    json_t **records; /* [questions], of eval_run */
    eval_journal journal;
    /* Of the records, by compare_row_count: */
    compare_score score;
    compare_pairs to_dense; /* against the first row, over questions that both could be asked */
    method_summary did;     /* mean over questions; lines as the session runs them */
    double prompt_tokens;   /* mean over questions */
    struct {
        double media, vision, prefill, decode;
    } seconds; /* of all answered questions */
} compare_row;

/* The session's settings of a line: the command's, with the line's methods, dense where it names none. */
void compare_row_config(const method_line *line, const run *r, sac_session_config *out);

/* Tries the line: its methods written out, its header (`like`, with this session's settings; NULL = made of
 * the run's model and task). A session that cannot be had is no failure but `refused`. */
sac_status compare_row_open(compare_row *row, run *r, const eval_task *t, const char *set_path,
                            const json_t *like, sac_error *err);

/* Opens the journal in a folder and takes what was answered before. */
sac_status compare_row_resume(compare_row *row, const char *folder, const eval_set *set, bool retry,
                              sac_error *err);

/* Figures and sums of a row whose answers are scored (compare_score_make); `dense` is the first row, counted before.
 * resample: as compare_score_judge. */
sac_status compare_row_count(compare_row *row, const compare_row *dense, const eval_task *t, bool resample,
                             sac_error *err);

/* Frees all but the journal, which eval_journal_close ends. */
void compare_row_free(compare_row *row, size_t n_questions);

/* Seconds of prefill and decode a question: what a method changes. NAN when nothing was answered. */
double compare_row_seconds(const compare_row *row);

#endif
