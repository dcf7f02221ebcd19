#include "ref.h"
#include "weights/ref_weights.h"
#include "weights/x_rounding.h"

#include <math.h>

double sac_ref_activation(sac_activation act, double x) {
    switch (act) {
    case SAC_ACT_NONE: return x;
    case SAC_ACT_GELU: return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
    case SAC_ACT_GELU_TANH: return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case SAC_ACT_QUICK_GELU: return x / (1 + exp(-1.702 * x));
    case SAC_ACT_SILU: return x / (1 + exp(-x));
    case SAC_ACT_SIGMOID: return 1 / (1 + exp(-x));
    }
    assert(0 && "no such activation");
    return x;
}

/* One weight row at a time, as f32 in the scratch of thread 0, and behind it a row of x where that is rounded. */
sac_status sac_ref_linear(const sac_stream *s, const sac_linear_args *a) {
    int64_t m = a->x.rows, k = a->x.cols, n = a->y.cols;
    const sac_ref_weight *format = sac_ref_weight_of(&a->w);
    assert(sac_ref_is_mat(a->x) && sac_ref_is_mat(a->y) && a->y.rows == m);
    assert(format->holds(&a->w, n, k));
    assert(2 * (size_t)k * sizeof(float) <= SAC_THREAD_SCRATCH_BYTES);
    float *w = sac_stream_thread_scratch(s, 0), *rounded = w + k;
    for (int64_t j = 0; j < n; j++) {
        format->row(&a->w, j, k, w);
        for (int64_t i = 0; i < m; i++) {
            const float *x = sac_mat_row_f32(a->x, i);
            double sum = 0;
            if (a->w.x_rounding) { /* of a single row once */
                if (m > 1 || j == 0) sac_round_x(&a->w, x, rounded, k);
                x = rounded;
            }
            for (int64_t c = 0; c < k; c++) sum += (double)x[c] * (double)w[c];
            if (a->bias) sum += (double)a->bias[j];
            float *y = sac_mat_row_f32(a->y, i) + j;
            double v = sac_ref_activation(a->act, sum);
            *y = (float)(a->accumulate ? (double)*y + v : v);
        }
    }
    return SAC_OK;
}

sac_status sac_ref_linear_group(const sac_stream *s, const sac_linear_group_args *a) {
    assert(a->n >= 1 && a->n <= SAC_LINEAR_GROUP_MOST);
    for (int i = 0; i < a->n; i++) {
        sac_linear_args part = sac_linear_group_part(a, i);
        SAC_TRY(sac_ref_linear(s, &part));
    }
    return SAC_OK;
}
