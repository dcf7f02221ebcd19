#ifndef SAC_OP_PACKED_STEP_H
#define SAC_OP_PACKED_STEP_H

#include "kv_view.h"
#include "packed_view.h"

/* A step over packed rows and a plain tail, where a device gains by doing both in one go: q = softmax(scale q
 * k^T) v over all rows of the parts and of the tail. lse as in attention; variants may round as those of
 * packed_attention do. With `weights`, what packed_attention has written there with its own `weights`, the
 * parts' keys are not read: row j of the parts has the score ln weights[head][j] + lse_parts[head], and rows
 * of less weight than least[head] do not count. */
typedef struct sac_packed_step_args {
    sac_mat q;                    /* [1][n_heads * head_dim], replaced by the output */
    const sac_packed_rows *parts; /* all of the tail's heads, values included */
    int n_parts;                  /* may be 0 */
    sac_kv_view tail;             /* n_rows may be 0 when there are parts */
    int n_heads;
    float scale;
    float *lse;           /* [n_heads] or NULL */
    const float *weights; /* [n_heads][stride] or NULL */
    int64_t stride;
    const float *least, *lse_parts; /* [n_heads] */
} sac_packed_step_args;

#endif
