/* Floats of 8 bits (e4m3) with scales apart, w = q scale: one scale for all, one a row, or one for each block of
 * `group_rows` rows and `group` elements, of which the last may be short. */
#include "parts.h"
#include "ref_weights.h"
#include "x_rounding.h"

static bool holds(const sac_weight *w, int64_t n, int64_t k) {
    const sac_tensor *q = &w->tensor;
    const int64_t rows = w->group_rows ? (n + w->group_rows - 1) / w->group_rows : n;
    return q->data && q->dtype == SAC_DTYPE_FP8 && q->dim[0] == n && q->dim[1] == k &&
           sac_ref_holds_scales(w, rows, k);
}

static void row(const sac_weight *w, int64_t j, int64_t k, float *y) {
    const uint8_t *q = (const uint8_t *)w->tensor.data + j * k;
    const int64_t at = w->scales.dim[0] == 1 ? 0 : w->group_rows ? j / w->group_rows : j;
    for (int64_t first = 0, g = 0; first < k; first += w->group, g++) {
        const float scale = sac_ref_scale(&w->scales, at * w->scales.dim[1] + g);
        const int64_t end = k - first < w->group ? k : first + w->group;
        for (int64_t c = first; c < end; c++) y[c] = scale * sac_e4m3_to_f32(q[c]);
    }
}

const sac_ref_weight sac_ref_weight_fp8 = {.holds = holds, .row = row};
