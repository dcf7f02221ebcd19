#ifndef SAC_OP_QKV_STEP_H
#define SAC_OP_QKV_STEP_H

#include "kv_view.h"
#include "rotation.h"
#include "weight.h"

/* One token's way into a layer's attention, where a device gains by doing it in one go: with a = x /
 * sqrt(mean (x^2) + eps) * norm, q = a wq^T (+ bias), turned by rope at pos[0], to the output; k and v
 * likewise (v is not turned) to row `first` of the view, whose type the output has where that is not x's. Weights in F32, F16 or BF16. A device may round a to
 * x's type, and may read `pos` and the table while the op before still runs: both come by upload, not from an
 * op. */
typedef struct sac_qkv_step_args {
    sac_mat q;         /* [1][n_heads * head_dim] */
    sac_mat x;         /* [1][hidden] */
    const float *norm; /* [hidden] */
    float eps;
    sac_weight wq, wk, wv;                 /* [heads * head_dim][hidden] */
    const float *q_bias, *k_bias, *v_bias; /* or NULL */
    sac_rotation rotation;
    const int32_t *pos;
    sac_kv_view kv;
    int64_t first;
    int n_heads;
} sac_qkv_step_args;

#endif
