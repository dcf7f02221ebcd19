#ifndef SAC_OP_CHOICE_STEP_H
#define SAC_OP_CHOICE_STEP_H

#include "kv_view.h"
#include "rotation.h"

#include <stdbool.h>

/* The rows of one list of choice_rows, read at the places they have in it, where a device gains by doing it
 * in one go: they go to rows 0 .. of dst, keys turned back by how far they lie from their place, and q, whose
 * own row is the last of them, is turned back as that one is. What is left is dense attention of q over dst.
 * With `kept` dst has the rows before the last `local` from a step before; these are not written, and `skip`
 * means the same, found there. n_heads 0: no query, rows only. dst is not src's memory. */
typedef struct sac_choice_step_args {
    sac_mat q; /* [1][n_heads * head_dim], looked at with heads only */
    sac_kv_view dst, src;
    const int32_t *chosen; /* [n_chosen] */
    int64_t n_chosen, init, local, n_rows;
    sac_rotation rotation;
    int n_heads;
    bool kept;
    const int32_t *skip; /* or NULL */
} sac_choice_step_args;

#endif
