/* comparison.h - a set of any benchmark that `eval` reads asked under several method lines: what `compare` and `tune` have in
 * common.
 *
 * Video by video, or picture by picture, every method in turn: so a cache of visual embeddings that holds one is enough to
 * encode each once, and one session is there at a time. Questions without media are one turn, where nothing stops the asking. Every method line has its own journal. */
#ifndef APP_COMPARISON_H
#define APP_COMPARISON_H

#include "compare_row.h"
#include "progress.h"

typedef struct comparison {
    const settings *s;
    const char *set_path;
    eval_set set;
    eval_task task;
    run *r; /* the caller's, with an open model */
    method_list list;
    compare_row *rows; /* [n_rows], in the order of the list; dense first */
    size_t n_rows;
    bool resampled;     /* intervals and p are by draws (compare_score.h) */
    progress line;      /* zeroed: none is shown */
    int64_t done, todo; /* questions, of all methods, as the line shows them */
} comparison;

/* Which of a comparison's questions are asked now, and how long. */
typedef struct comparison_choice {
    const bool *rows;      /* [n_rows]; NULL = all that were not refused */
    const bool *questions; /* [set.n_questions]; NULL = all */
    /* Asked before a method's turn at a video or picture; true ends the asking. NULL = never. */
    bool (*stop)(void *ctx);
    void *ctx;
} comparison_choice;

/* A comparison's methods are its lines: a policy from a settings file, which would hide in all of them, is refused. */
sac_status comparison_check_settings(const settings *s, sac_error *err);

/* A method's name that does not exist is a slip of the pen, not a row of the table: refused before any work. */
sac_status comparison_check_names(const method_list *list, sac_error *err);

/* Tries every line (compare_row_open), of a list that has grown those that are new. Lines that no session can be had for are rows, too; without dense there is
 * nothing to compare with. */
sac_status comparison_open_rows(comparison *c, sac_error *err);

/* Opens the journals of all rows that have none yet in out/name, which are made, and takes what was answered before. */
sac_status comparison_open_journals(comparison *c, const char *out, const char *name, sac_error *err);

/* Answers that are missing of what the choice (NULL = everything) names. */
int64_t comparison_missing(const comparison *c, const comparison_choice *choice);

/* Asks them. Journals, where they are open, have each answer as soon as it is there. On failure the answers made so
 * far stay. */
sac_status comparison_ask(comparison *c, const comparison_choice *choice, sac_error *err);

/* Brings the journals to the disk; the first failure, or `st` where that is one already. */
sac_status comparison_close_journals(comparison *c, sac_status st, sac_error *err);

/* Keeps the questions for which keep[] is true, and the answers to them (eval_set_keep). */
sac_status comparison_keep(comparison *c, const bool *keep, sac_error *err);

/* Counts every row against the first (compare_row_count). */
sac_status comparison_count(comparison *c, sac_error *err);

/* One line on standard error about lines that were refused, before the others are asked, and about questions that could
 * not be asked; the exit code says so, too. */
void comparison_note_refused(const comparison *c);
void comparison_note_failed(const comparison *c);

/* Frees all but s, set_path and r. */
void comparison_free(comparison *c);

#endif
