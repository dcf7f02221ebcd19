#ifndef SAC_OP_KEPT_ROWS_H
#define SAC_OP_KEPT_ROWS_H

#include "device.h"

#include <stdbool.h>

/* Lists of what passes: list l has, ascending, every place j < n where any of its n_rows / n_lists rows of
 * numbers has values[r][j] >= threshold[r] (NaN passes nothing), or the row number that stands there in the
 * row's own list of `from`; with `last` place n - 1 always. sums[0] grows by the numbers of the lists,
 * sums[1] by the rows' own before they were joined. */
typedef struct sac_kept_rows_args {
    int32_t *rows;       /* room for n_lists * n; list l begins at start[l] */
    int64_t *start;      /* [n_lists + 1] */
    const float *values; /* [n_rows][stride] */
    int64_t stride, n;
    int n_rows, n_lists;    /* n_lists divides n_rows */
    const float *threshold; /* [n_rows] */
    const int32_t *from;    /* [n_from][n] row numbers, ascending, or NULL: place j is row j */
    int n_from;             /* divides n_lists */
    bool last;
    int64_t *sums; /* [2] or NULL */
} sac_kept_rows_args;

#endif
