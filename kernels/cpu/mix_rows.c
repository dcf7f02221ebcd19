#include "cpu.h"

static void mix_rows(const void *args, int64_t first, int64_t end) {
    const sac_mix_rows_args *a = args;
    const int64_t n = a->y.cols;
    for (int64_t i = first; i < end; i++) {
        const int32_t *source = a->source + i % a->period * a->n_taps;
        const float *weight = a->weight + i % a->period * a->n_taps;
        float *y = sac_mat_row_f32(a->y, i);
        for (int64_t j = 0; j < n; j++) {
            float sum = 0;
            for (int k = 0; k < a->n_taps; k++) sum += weight[k] * a->table[source[k] * n + j];
            y[j] += sum;
        }
    }
}

sac_status sac_cpu_mix_rows(const sac_stream *s, const sac_mix_rows_args *a) {
    sac_for_rows(s, a->y.rows, a->y.cols * 4 * (a->n_taps + 2), mix_rows, a);
    return SAC_OK;
}
