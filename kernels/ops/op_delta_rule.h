#ifndef SAC_OP_DELTA_RULE_H
#define SAC_OP_DELTA_RULE_H

#include "device.h"
#include "state_rows.h"

enum { SAC_DELTA_KEY_MOST = 256 }; /* largest key_dim */

/* The gated delta rule (Yang, Kautz and Hatamizadeh, arXiv:2412.06464, eq. 10): attention whose memory of a sequence is
 * one matrix S [key_dim][value_dim] a head, which forgets by a gate and replaces what it holds under a key. Of row t and
 * value head h, with q and k those of key head h / (n_heads / n_key_heads) divided by sqrt(their sum of squares + eps):
 *   S *= exp(-exp(a_log[h]) softplus(a[t][h] + dt_bias[h]))
 *   S += k (sigmoid(b[t][h]) (v - S^T k))^T
 *   y[t][h] = S^T q / sqrt(key_dim)
 * A part's state is [n_heads][key_dim][value_dim]. y may be v. Rows go one after the other whatever the call: however
 * rows are cut into calls, a row's bits are the same on the CPU. */
typedef struct sac_delta_rule_args {
    sac_mat y;    /* [rows][n_heads * value_dim] */
    sac_mat q, k; /* [rows][n_key_heads * key_dim] */
    sac_mat v;    /* as y */
    sac_mat a, b; /* [rows][n_heads] */
    const float *a_log, *dt_bias; /* [n_heads] */
    int n_heads, n_key_heads;     /* the former a multiple of the latter */
    float eps;
    const sac_state_rows *parts; /* [n_parts], of all rows together; on the host */
    int n_parts;
} sac_delta_rule_args;

static inline int64_t sac_delta_key_dim(const sac_delta_rule_args *a) {
    return a->k.cols / a->n_key_heads;
}
static inline int64_t sac_delta_value_dim(const sac_delta_rule_args *a) {
    return a->v.cols / a->n_heads;
}

#endif
