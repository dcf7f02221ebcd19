/* HQQ with 4 bits (Badri and Shaji 2023, "Half-Quadratic Quantization"): w = scale (code - zero), codes from 0 to 15, of two in a
 * byte the first in the low bits; scales and zeros are floats [n][groups], one of each for every `group` elements of a row. */
#include "parts.h"
#include "ref_weights.h"

static bool holds(const sac_weight *w, int64_t n, int64_t k) {
    const sac_tensor *q = &w->tensor, *z = &w->zeros;
    return q->data && q->dtype == SAC_DTYPE_HQQ_4 && q->dim[0] == n && q->dim[1] == k && k % 8 == 0 &&
           sac_ref_holds_scales(w, n, k) && w->scales.dim[0] == n && w->group % 8 == 0 && z->data &&
           sac_ref_is_float(z->dtype) && z->dim[0] == n && z->dim[1] == w->scales.dim[1];
}

static void row(const sac_weight *w, int64_t j, int64_t k, float *y) {
    const uint8_t *q = (const uint8_t *)w->tensor.data + j * (k / 2);
    for (int64_t c = 0; c < k; c++) {
        const int64_t at = j * w->scales.dim[1] + c / w->group;
        y[c] = sac_ref_scale(&w->scales, at) * ((float)sac_ref_packed(q, c, 4) - sac_ref_scale(&w->zeros, at));
    }
}

const sac_ref_weight sac_ref_weight_hqq = {.holds = holds, .row = row};
