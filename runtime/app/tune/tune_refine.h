/* tune_refine.h - settings near those that did best: a value further along its range, a layer more or less, two methods of which one
 * changes prompts and the other the cache or steps. */
#ifndef APP_TUNE_REFINE_H
#define APP_TUNE_REFINE_H

#include "method_list.h"

/* Adds at most `most` lines made of the list's lines best[0 .. n_best), the first of them first; lines that are there already are
 * passed over. Returns through *n_added how many. The list's lines move. */
sac_status tune_refine(method_list *list, const size_t *best, size_t n_best, size_t most, size_t *n_added,
                       sac_error *err);

#endif
