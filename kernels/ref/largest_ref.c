#include "ref.h"

#include <math.h>

sac_status sac_ref_largest(const sac_stream *s, const sac_largest_args *a) {
    (void)s;
    assert(a->n_rows >= 0 && a->n >= 1 && a->n <= INT32_MAX && a->stride >= a->n);
    for (int row = 0; row < a->n_rows; row++) {
        const float *x = a->x + row * a->stride;
        a->at[row] = 0;
        a->value[row] = -INFINITY;
        for (int64_t i = 0; i < a->n && !isnan(x[0]); i++)
            if (x[i] > a->value[row]) a->value[row] = x[i], a->at[row] = (int32_t)i;
    }
    return SAC_OK;
}
