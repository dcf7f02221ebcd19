#include "cpu.h"

#include <math.h>

/* Row r is head r % n_heads of query r / n_heads. */
static void join_rows(const void *args, int64_t first, int64_t end) {
    const sac_join_attention_args *a = args;
    int64_t d = a->o.cols / a->n_heads;
    for (int64_t i = first; i < end; i++) {
        float *x = sac_mat_row_f32(a->o, i / a->n_heads) + i % a->n_heads * d;
        const float *y = sac_mat_row_f32(a->other, i / a->n_heads) + i % a->n_heads * d;
        float max = fmaxf(a->lse[i], a->other_lse[i]);
        if (max == -INFINITY) continue; /* neither sees a key: o is what it was */
        float u = expf(a->lse[i] - max), v = expf(a->other_lse[i] - max), sum = u + v;
        u /= sum;
        v /= sum;
        for (int64_t c = 0; c < d; c++) x[c] = u * x[c] + v * y[c];
    }
}

sac_status sac_cpu_join_attention(const sac_stream *s, const sac_join_attention_args *a) {
    int64_t d = a->o.cols / a->n_heads;
    sac_for_rows(s, a->o.rows * a->n_heads, d * 12, join_rows, a);
    return SAC_OK;
}
