/* eval_cut.h - a prompt that does not fit, cut in its middle, as LongBench and InfiniteBench do: the first half and the last
 * half of the tokens that there is room for, put together as text. */
#ifndef APP_EVAL_CUT_H
#define APP_EVAL_CUT_H

#include "run.h"

/* *out: the text, to free, cut so that its prompt and an answer of the run's max_tokens fit the session's context; *left_out: tokens
 * that it lost, 0 = none. raw: without chat format. What cannot be cut enough comes as it is. */
sac_status eval_cut_middle(run *r, const char *text, bool raw, char **out, int64_t *left_out, sac_error *err);

#endif
