#ifndef SAC_OP_PACKED_STEP_H
#define SAC_OP_PACKED_STEP_H

#include "kv_view.h"
#include "packed_view.h"

/* A step over packed rows and a plain tail, where a device gains by doing both in one go: q = softmax(scale q
 * k^T) v over all rows of the parts and of the tail. lse as in attention; variants may round as those of
 * packed_attention do. */
typedef struct sac_packed_step_args {
    sac_mat q;                    /* [1][n_heads * head_dim], replaced by the output */
    const sac_packed_rows *parts; /* all of the tail's heads, values included */
    int n_parts;                  /* may be 0 */
    sac_kv_view tail;             /* n_rows may be 0 when there are parts */
    int n_heads;
    float scale;
    float *lse; /* [n_heads] or NULL */
} sac_packed_step_args;

#endif
