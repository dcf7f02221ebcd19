#include "ref.h"

#include <math.h>

static double share(const sac_soft_vote_args *a, int row, int64_t j) {
    if (a->lse[row] == -INFINITY) return -INFINITY;
    return (double)a->scores[row * a->stride + j] - (double)a->lse[row];
}

sac_status sac_ref_soft_vote(const sac_stream *s, const sac_soft_vote_args *a) {
    if (sac_is_skipped(a->skip)) return SAC_OK;
    assert(a->n_rows >= 0 && a->n >= 0 && a->n <= a->stride && a->scores && a->lse && a->votes);
    for (int g = 1; g < a->n_groups; g++) {
        sac_soft_vote_args b = *a;
        b.scores += (int64_t)g * a->n_rows * a->stride, b.lse += (int64_t)g * a->n_rows,
            b.votes += g * a->stride;
        b.n_groups = 1;
        SAC_TRY(sac_ref_soft_vote(s, &b));
    }
    for (int64_t j = 0; j < a->n; j++) {
        double max = -INFINITY, sum = 0;
        for (int row = 0; row < a->n_rows; row++) max = fmax(max, share(a, row, j));
        for (int row = 0; row < a->n_rows && max > -INFINITY; row++) sum += exp(share(a, row, j) - max);
        a->votes[j] = sum > 0 ? (float)(log(sum) + max) : -INFINITY;
    }
    return SAC_OK;
}
