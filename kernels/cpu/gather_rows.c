#include "cpu.h"

static void gather_rows(const void *args, int64_t first, int64_t end) {
    const sac_gather_rows_args *a = args;
    for (int64_t i = first; i < end; i++) {
        const float *row = a->source[i] < 0 ? a->fill : sac_mat_row_f32(a->x, a->source[i]);
        memcpy(sac_mat_row_f32(a->y, i), row, (size_t)a->y.cols * sizeof(float));
    }
}

sac_status sac_cpu_gather_rows(const sac_stream *s, const sac_gather_rows_args *a) {
    sac_for_rows(s, a->y.rows, a->y.cols * 8, gather_rows, a);
    return SAC_OK;
}
