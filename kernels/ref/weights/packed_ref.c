/* compressed-tensors' pack-quantized with 4 or 8 bits, w = (q - zero) scale:
 *
 *   numbers  [n][k bits / 32] words of 32 bits, little endian: consecutive elements of a row, the first in the lowest
 *            bits, with half of the range added
 *   scales   [n][groups], or one for all; the last group of a row may be short
 *   zeros    [n bits / 32][groups] words: consecutive rows, with half of the range added too; without them that is what
 *            stands for 0. The tensor's shape is [groups][n], n rounded up to whole words */
#include "packed_zero.h"
#include "parts.h"
#include "ref_weights.h"

static bool holds(const sac_weight *w, int64_t n, int64_t k) {
    const sac_tensor *q = &w->tensor, *z = &w->zeros;
    if (!q->data || (q->dtype != SAC_DTYPE_PACKED_4 && q->dtype != SAC_DTYPE_PACKED_8)) return false;
    if (q->dim[0] != n || q->dim[1] != k || k % 8 || (w->group % 8 && w->group < k)) return false;
    if (!sac_ref_holds_scales(w, n, k)) return false;
    return !z->data ||
           (z->dtype == q->dtype && z->dim[0] == w->scales.dim[1] && z->dim[1] >= w->scales.dim[0]);
}

int sac_packed_zero(const sac_weight *w, int64_t j, int64_t g) {
    const int bits = w->tensor.dtype == SAC_DTYPE_PACKED_8 ? 8 : 4, in_word = 32 / bits;
    if (!w->zeros.data) return 1 << (bits - 1);
    const int64_t at = w->scales.dim[0] == 1 ? 0 : j;
    return sac_ref_packed(w->zeros.data, (at / in_word * w->scales.dim[1] + g) * in_word + at % in_word,
                          bits);
}

static void row(const sac_weight *w, int64_t j, int64_t k, float *y) {
    const int bits = w->tensor.dtype == SAC_DTYPE_PACKED_8 ? 8 : 4;
    const int64_t first = w->scales.dim[0] == 1 ? 0 : j * w->scales.dim[1];
    for (int64_t c = 0; c < k; c++) {
        int64_t g = c / w->group;
        int q = sac_ref_packed(w->tensor.data, j * k + c, bits) - sac_packed_zero(w, j, g);
        y[c] = sac_ref_scale(&w->scales, first + g) * (float)q;
    }
}

const sac_ref_weight sac_ref_weight_packed = {.holds = holds, .row = row};
