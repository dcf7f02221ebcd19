/* The 4-bit "normal float" of bitsandbytes (Dettmers et al. 2023, arXiv:2305.14314): a number is an index of 16 levels,
 * w = level scale, a scale for each `group` elements of a row; of two in a byte the first has the high bits. */
#include "nf4_levels.h"
#include "parts.h"
#include "ref_weights.h"

const float sac_nf4_levels[16] = {SAC_NF4_LEVELS};

static bool holds(const sac_weight *w, int64_t n, int64_t k) {
    const sac_tensor *q = &w->tensor;
    return q->data && q->dtype == SAC_DTYPE_NF4 && q->dim[0] == n && q->dim[1] == k && k % 8 == 0 &&
           sac_ref_holds_scales(w, n, k) && w->scales.dim[0] == n && w->group % 8 == 0;
}

static void row(const sac_weight *w, int64_t j, int64_t k, float *y) {
    const uint8_t *q = (const uint8_t *)w->tensor.data + j * (k / 2);
    for (int64_t c = 0; c < k; c++) {
        float level = sac_nf4_levels[q[c / 2] >> (c % 2 ? 0 : 4) & 15];
        y[c] = sac_ref_scale(&w->scales, j * w->scales.dim[1] + c / w->group) * level;
    }
}

const sac_ref_weight sac_ref_weight_nf4 = {.holds = holds, .row = row};
