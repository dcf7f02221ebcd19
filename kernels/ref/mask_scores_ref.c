#include "ref.h"

#include <math.h>

sac_status sac_ref_mask_scores(const sac_stream *s, const sac_mask_scores_args *a) {
    (void)s;
    assert(a->n >= 0 && a->n <= a->stride && a->lists.n_lists > 0 && a->n_rows % a->lists.n_lists == 0);
    for (int r = 0; r < a->n_rows; r++) {
        int list = r / (a->n_rows / a->lists.n_lists);
        int64_t i = a->lists.start[list], end = a->lists.start[list + 1];
        for (int64_t j = 0; j < a->n; j++) {
            if (i < end && a->lists.rows[i] == j)
                i++;
            else
                a->scores[r * a->stride + j] = -INFINITY;
        }
        assert(i == end);
    }
    return SAC_OK;
}
