#ifndef SAC_OP_KV_GATHER_H
#define SAC_OP_KV_GATHER_H

#include "kv_view.h"
#include "rotation.h"
#include "row_lists.h"

#include <stdbool.h>

/* Rows of src to rows 0.. of dst: dst row i of key-value head h = src row of h's list (which need not ascend
 * here: several lists may follow each other in one), keys turned back by
 * turn_back[i] >= 0 positions where that is given (laid out like the lists' rows). dst may have another dtype
 * but not src's memory. */
typedef struct sac_kv_gather_args {
    sac_kv_view dst, src;
    const sac_row_lists *lists; /* n_lists 1 or kv heads, all of the same length when dst is read as dense */
    const int32_t *turn_back;   /* or NULL */
    const sac_rotation *rotation;
    bool keys_only;
    const sac_row_lists *read; /* or NULL; rows of dst that are going to be read, each list ascending, as many
                                  for each key-value head: the others need not be written */
} sac_kv_gather_args;

#endif
