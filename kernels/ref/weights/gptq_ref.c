/* GPTQ's packing (Frantar et al. 2022, arXiv:2210.17323, as the AutoGPTQ and GPTQModel projects store it): numbers of 4
 * or 8 bits, a scale and a zero for each group of inputs of an output, w = (q - zero) scale.
 *
 *   numbers  [k bits / 32][n] words of 32 bits, little endian: a word holds consecutive inputs of one output, the first
 *            in the lowest bits
 *   scales   [groups][n]
 *   zeros    [groups][n bits / 32] words: consecutive outputs, the first in the lowest bits
 *   order    the group of each input; without it, groups are stretches of `group` inputs, the last may be short
 *
 * Files of the first version hold the zero less one, within its bits: zero_add is 1. */
#include "parts.h"
#include "ref_weights.h"

static int bits_of(const sac_weight *w) {
    return w->tensor.dtype == SAC_DTYPE_GPTQ_8 ? 8 : 4;
}

static bool holds(const sac_weight *w, int64_t n, int64_t k) {
    const sac_tensor *q = &w->tensor, *s = &w->scales, *z = &w->zeros, *o = &w->order;
    if (!q->data || (q->dtype != SAC_DTYPE_GPTQ_4 && q->dtype != SAC_DTYPE_GPTQ_8)) return false;
    if (q->dim[0] != n || q->dim[1] != k || n % 8 || k % 8 || w->group < 1) return false;
    if (!s->data || !sac_ref_is_float(s->dtype) || s->dim[1] != n) return false;
    if (o->data ? o->dtype != SAC_DTYPE_I32 || o->dim[1] != k : w->group % 8 && w->group < k) return false;
    if (s->dim[0] != (k + w->group - 1) / w->group) return false;
    return z->data && z->dtype == q->dtype && z->dim[0] == s->dim[0] && z->dim[1] == n;
}

static void row(const sac_weight *w, int64_t j, int64_t k, float *y) {
    const int64_t n = w->tensor.dim[0];
    const int bits = bits_of(w), in_word = 32 / bits;
    const int32_t *order = w->order.data;
    for (int64_t c = 0; c < k; c++) {
        int64_t g = order ? order[c] : c / w->group;
        int q = sac_ref_packed(w->tensor.data, (c / in_word * n + j) * in_word + c % in_word, bits);
        int zero = (sac_ref_packed(w->zeros.data, g * n + j, bits) + w->zero_add) & ((1 << bits) - 1);
        y[c] = sac_ref_scale(&w->scales, g * n + j) * (float)(q - zero);
    }
}

const sac_ref_weight sac_ref_weight_gptq = {.holds = holds, .row = row};
