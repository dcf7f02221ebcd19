#ifndef SAC_OP_EVICT_ROW_H
#define SAC_OP_EVICT_ROW_H

#include "kv_view.h"

#include <stdbool.h>

/* A step of a cache that holds the rows which were looked at most (H2O, arXiv:2306.14048). The view's last
 * row is new: it gets `age` and the score 0. Then every row's score grows by its weight; and, with `evict`,
 * each head loses, of its rows of an age below `recent_from`, the one with the smallest score, of equals the
 * one of the greatest age: the last row's keys, values, score and age take its place. There is such a row,
 * ages of a head differ, and weights are numbers. */
typedef struct sac_evict_row_args {
    sac_kv_view kv;
    float *score; /* [kv.n_heads][stride] by row */
    int32_t *ages;
    int64_t stride;       /* at least kv.n_rows */
    const float *weights; /* [kv.n_heads][weights_stride] of the step */
    int64_t weights_stride;
    int32_t age, recent_from;
    bool evict;
} sac_evict_row_args;

#endif
