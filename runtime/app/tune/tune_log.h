/* tune_log.h - what a search has decided, in tune.jsonl (journal.h): a header with all that the search depends on, the plan,
 * and what each rung kept. Answers are in journals of their own; a search that was killed finds both and decides the same. */
#ifndef APP_TUNE_LOG_H
#define APP_TUNE_LOG_H

#include "comparison.h"
#include "journal.h"
#include "tune_rank.h"

typedef struct tune_log {
    journal_file file;
    json_t *header; /* of this search; the caller's */
    json_t *lines;  /* behind the header, as they were and as they are written */
} tune_log;

/* Opens out/tune.jsonl. BAD_CONFIG when it is of a search with other settings: the line says what differs. On failure, too,
 * tune_log_close is due. */
sac_status tune_log_open(tune_log *log, const char *out, json_t *header, sac_error *err);
sac_status tune_log_close(tune_log *log, sac_error *err);

/* The plan, where there is one already: false otherwise. The same with what rung k kept: rows[i] is set for
 * rows of c. */
bool tune_log_plan(const tune_log *log, tune_plan *plan, int64_t *prompt_tokens);
bool tune_log_rung(const tune_log *log, size_t k, const comparison *c, bool *rows);

sac_status tune_log_write_plan(tune_log *log, const tune_plan *plan, int64_t prompt_tokens, sac_error *err);
/* n_questions: that all settings of the rung answered. cut: for lack of time. judged: of tune_log_judged, taken over. */
sac_status tune_log_write_rung(tune_log *log, size_t k, const comparison *c, const bool *kept,
                               size_t n_questions, bool cut, json_t *judged, sac_error *err);

/* {"limits": {"lost", "moved"}, "settings": [{"name", "cost", "lost", "moved"}]} of points whose rows are row[n]: what a rung decides by.
 * NULL = out of memory. */
json_t *tune_log_judged(const comparison *c, const tune_point *points, const size_t *row, size_t n, tune_limits limits);
json_t *tune_log_limits(tune_limits limits);

/* Lines that were made of the best, as they were written down, are added to the list; *known: there were such. */
sac_status tune_log_refined(const tune_log *log, method_list *list, bool *known, sac_error *err);
/* Those of the list from number `from` on. */
sac_status tune_log_write_refined(tune_log *log, const method_list *list, size_t from, sac_error *err);

/* Was rung k cut short? */
bool tune_log_was_cut(const tune_log *log, size_t k);

#endif
