#ifndef SAC_OP_EVEN_STEP_H
#define SAC_OP_EVEN_STEP_H

#include "even_view.h"
#include "kv_view.h"

enum { SAC_EVEN_RUNS = 2 };

/* A step over tiles and a plain tail: q = softmax(scale q k^T) v over the rows of all runs of tiles, as unpack_even has
 * them, and of the tail. The query is turned in place of the keys, and what comes out of the tiles is turned back. lse as
 * in attention. */
typedef struct sac_even_step_args {
    sac_mat q;                           /* [1][n_heads * head_dim], replaced by the output */
    sac_even_tiles tiles[SAC_EVEN_RUNS]; /* of all the tail's heads; n may be 0 */
    sac_kv_view tail;                    /* n_rows may be 0 when there are tiles */
    int n_heads;
    float scale;
    float *lse; /* [n_heads] or NULL */
} sac_even_step_args;

#endif
