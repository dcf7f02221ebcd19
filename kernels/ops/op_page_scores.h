#ifndef SAC_OP_PAGE_SCORES_H
#define SAC_OP_PAGE_SCORES_H

#include "kv_view.h"

/* What no key of a page can score above (Quest, arXiv:2406.10774), for the first n pages: the sum of q_c
 * max_c where q_c is positive and of q_c min_c where it is not; scores[s] is the sum of this over the query
 * heads of set s, those of a key-value head or each alone. */
typedef struct sac_page_scores_args {
    float *scores;  /* [n_sums][stride] */
    int64_t stride; /* at least n */
    int n_sums;     /* bounds.n_heads or n_heads */
    sac_mat q;      /* [1][n_heads * head_dim] */
    sac_kv_view bounds;
    int n_heads;
    int64_t n;
} sac_page_scores_args;

#endif
