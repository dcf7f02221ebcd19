#ifndef SAC_OP_ATTENTION_SUMS_H
#define SAC_OP_ATTENTION_SUMS_H

#include "kv_view.h"

/* How much attention keys get: sums[s][j] = sum over the probes r and the query heads of set s of
 * softmax_j(scale q_r k^T), with key j visible to probe r when j <= first + r (and within the window). Set s
 * of n_sums is all heads (1), those of key-value head s, or query head s. Two passes over the keys; the
 * matrix is never kept. With n_diagonals > 0, diagonals[s][c] gets the same mass summed by distance c = first
 * + r - j (only distances below n_diagonals). A probe that sees no key adds nothing. Any number of probes:
 * those that fit the scratch go together (about 1500 rows of heads of 128 channels, a row = a probe and a
 * query head), and share the work of unpacking keys. */
typedef struct sac_attention_sums_args {
    float *sums;           /* [n_sums][stride] */
    int64_t stride;        /* at least n_kv */
    int n_sums;            /* 1, kv.n_heads or n_heads */
    sac_mat q;             /* [n][n_heads * head_dim] */
    const int32_t *probes; /* [n_probes] ascending rows of q; NULL = all, n_probes = q.rows */
    int64_t n_probes;
    int64_t first;  /* row number of q's row 0 */
    sac_kv_view kv; /* v is not read */
    int64_t n_kv;
    int n_heads;
    float scale;
    int64_t window;   /* 0 = none */
    float *diagonals; /* [n_sums][n_diagonals] or NULL */
    int64_t n_diagonals;
} sac_attention_sums_args;

#endif
