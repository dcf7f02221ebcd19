#include "cpu.h"
#include "largest.h"

#include <math.h>

static void largest_rows(const void *args, int64_t first, int64_t end) {
    const sac_largest_args *a = args;
    for (int64_t row = first; row < end; row++) {
        const float *x = a->x + row * a->stride;
        a->at[row] = sac_largest_at(x, (int)a->n);
        const float found = x[a->at[row]];
        a->value[row] = found > -INFINITY ? found : -INFINITY; /* NaN is not */
    }
}

sac_status sac_cpu_largest(const sac_stream *s, const sac_largest_args *a) {
    sac_for_rows(s, a->n_rows, a->n, largest_rows, a);
    return SAC_OK;
}
