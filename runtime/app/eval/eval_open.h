/* eval_open.h - what `eval` and `compare` do before they ask: folders, prompt, model. */
#ifndef APP_EVAL_OPEN_H
#define APP_EVAL_OPEN_H

#include "eval_run.h"

/* The task that the settings ask for, about a set that was read from set_path. Folders are looked for, no
 * video is. On failure, too, eval_task_free frees what there is. */
sac_status eval_task_open(eval_task *t, const settings *s, const eval_set *set, const char *set_path,
                          sac_error *err);
void eval_task_free(eval_task *t);

/* run_open for a set: a model that sees; greedy and short unless told otherwise, as both projects ask. */
sac_status eval_open_model(run *r, const settings *s, const eval_task *t, sac_error *err);

#endif
