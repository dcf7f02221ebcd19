/* Floats of 4 bits, e2m1, in groups as NVFP4 (16) and MXFP4 (32) of Hugging Face folders have them: w = scale level, a scale for
 * each `group` elements of a row; of two in a byte the first has the low bits. */
#include "fp4_levels.h"
#include "parts.h"
#include "ref_weights.h"

const float sac_fp4_levels[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                  -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

static bool holds(const sac_weight *w, int64_t n, int64_t k) {
    const sac_tensor *q = &w->tensor;
    return q->data && q->dtype == SAC_DTYPE_FP4 && q->dim[0] == n && q->dim[1] == k && k % 8 == 0 &&
           sac_ref_holds_scales(w, n, k) && w->scales.dim[0] == n && w->group % 8 == 0;
}

static void row(const sac_weight *w, int64_t j, int64_t k, float *y) {
    const uint8_t *q = (const uint8_t *)w->tensor.data + j * (k / 2);
    for (int64_t c = 0; c < k; c++) {
        float level = sac_fp4_levels[q[c / 2] >> (c % 2 ? 4 : 0) & 15];
        y[c] = sac_ref_scale(&w->scales, j * w->scales.dim[1] + c / w->group) * level;
    }
}

const sac_ref_weight sac_ref_weight_fp4 = {.holds = holds, .row = row};
