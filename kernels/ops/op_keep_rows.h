#ifndef SAC_OP_KEEP_ROWS_H
#define SAC_OP_KEEP_ROWS_H

#include "kv_view.h"

/* Rows of keys and values that stay, side by side and in place: row rows[i] of a head becomes its row i, for
 * the ascending rows of its list. Rows from n on stay as they are. */
typedef struct sac_keep_rows_args {
    sac_kv_view kv;
    const int32_t *rows; /* [n_lists][n] */
    int64_t n;
    int n_lists; /* 1 or kv.n_heads */
} sac_keep_rows_args;

#endif
