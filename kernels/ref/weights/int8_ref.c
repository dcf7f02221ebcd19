/* 8 bits with a sign; scales lie apart, one for each `group` elements of a row (the last group may be short) or, with
 * group = k, one a row; a scales matrix of one row is everybody's. What stands for 0 may lie apart in the same way:
 * w = (q - zero) scale. compressed-tensors calls it int-quantized. */
#include "parts.h"
#include "ref_weights.h"

static bool holds(const sac_weight *w, int64_t n, int64_t k) {
    const sac_tensor *q = &w->tensor, *s = &w->scales, *z = &w->zeros;
    if (!q->data || q->dtype != SAC_DTYPE_I8 || q->dim[0] != n || q->dim[1] != k || w->group < 1)
        return false;
    if (!sac_ref_holds_scales(w, n, k)) return false;
    return !z->data || (z->dtype == SAC_DTYPE_I8 && z->dim[0] == s->dim[0] && z->dim[1] == s->dim[1]);
}

static void row(const sac_weight *w, int64_t j, int64_t k, float *y) {
    const int8_t *q = (const int8_t *)w->tensor.data + j * k, *zeros = w->zeros.data;
    int64_t first = w->scales.dim[0] == 1 ? 0 : j * w->scales.dim[1];
    for (int64_t c = 0; c < k; c++) {
        int64_t at = first + c / w->group;
        y[c] = sac_ref_scale(&w->scales, at) * (float)(q[c] - (zeros ? zeros[at] : 0));
    }
}

const sac_ref_weight sac_ref_weight_int8 = {.holds = holds, .row = row};
