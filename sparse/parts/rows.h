/* rows.h - rows of a layer's keys and values that a method moves itself, for methods of the CPU: others have
 * the ops keep_rows and evict_row. */
#ifndef SAC_ROWS_H
#define SAC_ROWS_H

#include "ops.h"

/* One head's row to another place of the same view. */
void sac_move_row(const sac_kv_view *kv, int head, int64_t from, int64_t to);

/* Moves the rows of the lists (one for all heads or one a head, ascending, equally long) together to the
 * front of the view, for `settle`; how many they are. */
int64_t sac_keep_rows(const sac_kv_view *kv, const sac_row_lists *lists);

#endif
