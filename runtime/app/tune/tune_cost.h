/* tune_cost.h - what a setting costs and loses beside dense, on some questions of a comparison. */
#ifndef APP_TUNE_COST_H
#define APP_TUNE_COST_H

#include "comparison.h"
#include "tune_rank.h"
#include "tune_table.h"

/* What is to become less. By work: of a prompt the query-key pairs that are met; of the cache its bytes; of a step the bytes
 * of keys and values that are read. By time, which differs from run to run: seconds of prefill, and of decode a token. The
 * cache is bytes in any case. */
typedef struct tune_aim {
    tune_want want;
    bool by_time;
} tune_aim;

/* Of row `at`, as a share of dense's (row 0) on the same questions; of questions[] (NULL = all) those that both rows have
 * answered. Both rows are scored before (compare_score_make). `lost` and `moved` are over the questions that are in the set's figure, a
 * question in several rotations (MMBench) once. */
tune_point tune_cost(const comparison *c, size_t at, const bool *questions, tune_aim aim);

/* Bytes of keys and values at the end of a question, mean; NAN where nothing was answered. */
double tune_cache_bytes(const comparison *c, size_t at);

#endif
