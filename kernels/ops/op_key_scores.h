#ifndef SAC_OP_KEY_SCORES_H
#define SAC_OP_KEY_SCORES_H

#include "kv_view.h"
#include "rotation.h"
#include "row_lists.h"

/* scores[h][i] = scale * (q_h . k_row), row = lists' i-th of head h, or first + i for i < n without lists.
 * With `back` keys are first turned back by their row number (which must be their position), as if stored
 * before rope but for the attention factor, which they keep; a device may round them to the view's type once
 * more. What lies beyond a list is not written. With n_queries above 1 (not with lists) as many queries go at
 * once, q [n_queries][n_heads * head_dim], scores [n_queries][n_heads][stride]: query i has the first n + i *
 * n_more rows, and its scores from there on, up to where the last query's end, become -infinity. With lse
 * (not with lists) the logarithm of the sum of each row's exponentials is found too. */
typedef struct sac_key_scores_args {
    float *scores;  /* [n_heads][stride] */
    int64_t stride; /* at least the longest list */
    const float *q; /* [n_heads * head_dim] */
    sac_kv_view kv; /* v is not read */
    int n_heads;
    const sac_row_lists *lists; /* or NULL */
    int64_t first, n;
    float scale;
    const sac_rotation *back; /* or NULL */
    int n_queries;            /* 0 as 1 */
    int64_t n_more;
    float *lse;          /* [n_queries][n_heads] or NULL */
    const int32_t *skip; /* or NULL */
} sac_key_scores_args;

#endif
