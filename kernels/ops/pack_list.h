#ifndef SAC_PACK_LIST_H
#define SAC_PACK_LIST_H

#include "device.h"

/* Which rows of a view: for each head its own list (n_lists heads), one list for all, or, rows NULL, the rows
 * from `first` on. List entries are counted from `first`. */
typedef struct sac_pack_rows {
    const int32_t *rows; /* [n_lists][n] */
    int64_t n, first;
    int n_lists;
} sac_pack_rows;

#endif
