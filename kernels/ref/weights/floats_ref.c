/* F32, F16 and BF16: the numbers themselves. */
#include "ref_weights.h"

static void f16_row(const uint16_t *h, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = sac_f16_to_f32(h[i]);
}

static void bf16_row(const uint16_t *h, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = sac_bf16_to_f32(h[i]);
}

static void row(const sac_weight *w, int64_t j, int64_t k, float *y) {
    const void *from = sac_ref_row_of(w, j);
    switch (w->tensor.dtype) {
    case SAC_DTYPE_F16: f16_row(from, y, k); return;
    case SAC_DTYPE_BF16: bf16_row(from, y, k); return;
    default: memcpy(y, from, (size_t)k * sizeof *y);
    }
}

const sac_ref_weight sac_ref_weight_floats = {.holds = sac_ref_holds_rows, .row = row};
