#ifndef SAC_OP_PACKED_SCORES_H
#define SAC_OP_PACKED_SCORES_H

#include "packed_view.h"
#include "rotation.h"

/* scores[h][i] = scale * (q_h . key), of row first + i of packed keys for i < n, or of row rows[i] of the
 * head's own list of `rows`; with turn_back the key, unpacked, is first turned back by turn_back[i]. lse[h] =
 * ln sum_i exp(scores[h][i]), -infinity without scores. A variant may round a head's q (times the keys' scale)
 * to 16 bits of its largest and, where keys are in 4 bits, which tell far less, to f16. Lists ascend. */
typedef struct sac_packed_scores_args {
    float *scores; /* [n_heads][stride] */
    int64_t stride, n;
    sac_mat q;                /* [1][n_heads * head_dim] */
    sac_packed_rows keys;     /* values are not read */
    const int32_t *rows;      /* [n_lists][n] or NULL */
    int n_lists;              /* 1, keys.n_heads or n_heads */
    const int32_t *turn_back; /* [n_lists][n] or NULL */
    const sac_rotation *rotation;
    int n_heads;
    float scale;
    int64_t first;       /* 0 with rows or turn_back */
    float *lse;          /* [n_heads] or NULL */
    const int32_t *skip; /* or NULL */
} sac_packed_scores_args;

#endif
