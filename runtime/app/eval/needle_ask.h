/* needle_ask.h - puts the rows of a needle set to a model.
 *
 * A row's record: {"id", "responses": [...], "scores": [...], "score", "prompt_tokens", "answer_tokens", "methods": {...}
 * (method_record.h), "seconds": {"prefill", "decode", "select", "attend"}}, a response and a score a turn, `score` their mean and
 * the rest of the last turn but seconds, which are sums; or {"id", "error": {"status", "text"}}. */
#ifndef APP_NEEDLE_ASK_H
#define APP_NEEDLE_ASK_H

#include "needle_set.h"
#include "run.h"

/* r: an open model with a session, which starts empty with every row and keeps what it holds from turn to turn. folder: of
 * media. *record is the caller's. Failures other than Ctrl-C, lack of memory and of a device become records. */
sac_status needle_ask(run *r, const needle_row *row, const char *folder, json_t **record, sac_error *err);

#endif
