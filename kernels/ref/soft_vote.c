#include "ref.h"

#include <math.h>

static double share(const sac_soft_vote_args *a, int row, int64_t j) {
    if (a->lse[row] == -INFINITY) return -INFINITY;
    return (double)a->scores[row * a->stride + j] - (double)a->lse[row];
}

sac_status sac_ref_soft_vote(const sac_stream *s, const sac_soft_vote_args *a) {
    (void)s;
    assert(a->n_rows >= 0 && a->n >= 0 && a->n <= a->stride && a->scores && a->lse && a->votes);
    for (int64_t j = 0; j < a->n; j++) {
        double max = -INFINITY, sum = 0;
        for (int row = 0; row < a->n_rows; row++) max = fmax(max, share(a, row, j));
        for (int row = 0; row < a->n_rows && max > -INFINITY; row++) sum += exp(share(a, row, j) - max);
        a->votes[j] = sum > 0 ? (float)(log(sum) + max) : -INFINITY;
    }
    return SAC_OK;
}
