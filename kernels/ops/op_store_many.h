#ifndef SAC_OP_STORE_MANY_H
#define SAC_OP_STORE_MANY_H

#include "kv_view.h"
#include "rotation.h"

/* One token each of several sequences, on its way into their attention: of each, q is turned as rope does, in
 * place; k, turned too, and v go to row `first` of its view, rounded to their own type and then to the
 * view's. All of the same heads and the same kind of rotation; rows that are written do not overlap. */
typedef struct sac_token_store {
    sac_mat q, k, v; /* [1][n_heads * head_dim], [1][kv heads * head_dim] x 2 */
    sac_rotation rotation;
    const int32_t *pos; /* [1] */
    sac_kv_view kv;
    int64_t first;
    int n_heads;
} sac_token_store;

typedef struct sac_store_many_args {
    const sac_token_store *each;
    int n;
} sac_store_many_args;

#endif
