#include "cpu.h"

static void scatter_rows(const void *args, int64_t first, int64_t end) {
    const sac_scatter_rows_args *a = args;
    for (int64_t i = first; i < end; i++) {
        float *y = sac_mat_row_f32(a->y, a->target ? a->target[i] : i);
        const float *x = sac_mat_row_f32(a->x, i);
        if (a->accumulate)
            for (int64_t j = 0; j < a->x.cols; j++) y[j] += x[j];
        else
            memcpy(y, x, (size_t)a->x.cols * sizeof(float));
    }
}

sac_status sac_cpu_scatter_rows(const sac_stream *s, const sac_scatter_rows_args *a) {
    sac_for_rows(s, a->x.rows, a->x.cols * (a->accumulate ? 12 : 8), scatter_rows, a);
    return SAC_OK;
}
