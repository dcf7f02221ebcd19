#ifndef SAC_OP_PAGE_BOUNDS_H
#define SAC_OP_PAGE_BOUNDS_H

#include "kv_view.h"

/* The largest and the smallest value of each channel over the keys of a page, rows p * page .. (p + 1) * page
 * - 1, for pages [first, first + n): row p of bounds.k, of twice the channels, has the largest ones, then the
 * smallest, rounded to its type. */
typedef struct sac_page_bounds_args {
    sac_kv_view bounds; /* v is not written */
    sac_kv_view kv;     /* v is not read */
    int64_t page, first, n;
} sac_page_bounds_args;

#endif
