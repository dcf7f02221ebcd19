#include "ref.h"

#include <math.h>

sac_status sac_ref_edit_scores(const sac_stream *s, const sac_edit_scores_args *a) {
    (void)s;
    assert(a->n_rows >= 0 && a->n >= 1 && a->n <= INT32_MAX && a->stride >= a->n);
    for (int row = 0; row < a->n_rows; row++) {
        float *x = a->x + row * a->stride;
        const uint32_t *mask = a->is_masked && a->is_masked[row] ? a->masks + row * a->mask_stride : NULL;
        assert(a->n_edits[row] >= 0 && a->n_edits[row] <= a->most && a->most <= a->edit_stride);
        for (int32_t i = 0; i < a->n_edits[row]; i++) {
            const sac_score_edit *e = &a->edits[row * a->edit_stride + i];
            assert(e->id >= 0 && e->id < a->n);
            x[e->id] += e->bias;
            x[e->id] = x[e->id] < 0 ? x[e->id] * e->repetition : x[e->id] / e->repetition;
            x[e->id] -= e->less;
        }
        for (int64_t i = 0; mask && i < a->n; i++)
            if (!(mask[i / 32] >> (i % 32) & 1)) x[i] = -INFINITY;
    }
    return SAC_OK;
}
