#ifndef SAC_OP_ANTIDIAGONAL_SUMS_H
#define SAC_OP_ANTIDIAGONAL_SUMS_H

#include "kv_view.h"

/* How much attention blocks of keys get from blocks of queries, by a sample of their pairs (XAttention,
 * arXiv:2503.16428, section 2.1). From q's row 0 on every `block` queries are a block of queries and every
 * `step` of them a unit; from row 0 on every `block` keys are a block of keys and every `step` of them a unit.
 * Units of queries t and of keys u meet along the antidiagonals of their square:
 *   s(t, u) = scale / step * sum over i < step of q[t * step + step - 1 - i] . k[u * step + i],
 * without pairs that lack one of both (the last units may be shorter). t sees u when u's first key is not
 * behind t's last query. sums[b][h][j] is the mean over the units of b of what softmax over the units that
 * each sees gives to those of block of keys j, for j from 0 up to the block of q's last row. */
typedef struct sac_antidiagonal_sums_args {
    float *sums;    /* [blocks of q][n_heads][stride] */
    int64_t stride; /* at least (first + q.rows + block - 1) / block */
    float *scores;  /* [units of q][n_heads][units of keys] room: what is written is nobody's */
    sac_mat q;      /* [n][n_heads * head_dim] */
    int64_t first;  /* row number of q's row 0; first + q.rows is at most kv.n_rows */
    sac_kv_view kv; /* v is not read */
    int n_heads;
    float scale;
    int64_t step, block; /* block is a multiple of step */
} sac_antidiagonal_sums_args;

static inline int64_t sac_antidiagonal_units(const sac_antidiagonal_sums_args *a) {
    return (a->first + a->q.rows + a->step - 1) / a->step;
}

/* Units of keys that unit t of queries sees. */
static inline int64_t sac_antidiagonal_seen(const sac_antidiagonal_sums_args *a, int64_t t) {
    int64_t end = (t + 1) * a->step < a->q.rows ? (t + 1) * a->step : a->q.rows;
    return (a->first + end - 1) / a->step + 1;
}

#endif
