#include "cpu.h"

/* In f32, one expert after the other: no instruction set sums in another order. */
static void mix_rows(const void *args, int64_t first, int64_t end) {
    const sac_mix_rows_args *a = args;
    const int64_t n = a->y.cols;
    for (int64_t i = first; i < end; i++) {
        float *y = sac_mat_row_f32(a->y, i);
        if (!a->accumulate) memset(y, 0, (size_t)n * sizeof *y);
        for (int64_t j = i * a->n_used; j < (i + 1) * a->n_used; j++) {
            const float *x = sac_mat_row_f32(a->x, a->place[j]), weight = a->weights[j];
            for (int64_t c = 0; c < n; c++) y[c] += weight * x[c];
        }
    }
}

sac_status sac_cpu_mix_rows(const sac_stream *s, const sac_mix_rows_args *a) {
    sac_for_rows(s, a->y.rows, a->y.cols * 4 * (a->n_used + 1), mix_rows, a);
    return SAC_OK;
}
