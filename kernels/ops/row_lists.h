#ifndef SAC_ROW_LISTS_H
#define SAC_ROW_LISTS_H

#include "device.h"

/* Row numbers of keys and values, each list ascending: one list for all heads, one for each key-value head or
 * one for each query head. */
typedef struct sac_row_lists {
    const int32_t *rows;  /* the lists, one after the other */
    const int64_t *start; /* [n_lists + 1]: list i is rows[start[i]] .. rows[start[i + 1] - 1] */
    int n_lists;          /* 1, kv.n_heads or n_heads */
} sac_row_lists;

#endif
