/* AWQ's "gemm" packing (Lin et al. 2023, arXiv:2306.00978, as the AutoAWQ project stores it): 4 bits, a scale (f16)
 * and a zero (4 bits) for each `group` inputs of an output, w = (q - zero) scale.
 *
 *   numbers  [k][n / 8] words of 32 bits, little endian: a word holds one input of eight outputs
 *   scales   [k / group][n]
 *   zeros    [k / group][n / 8] words, packed as the numbers are
 *
 * Outputs 0 to 7 of a word are in its nibbles 0, 4, 1, 5, 2, 6, 3, 7, the lowest first. */
#include "ref_weights.h"

static bool holds(const sac_weight *w, int64_t n, int64_t k) {
    const sac_tensor *q = &w->tensor, *s = &w->scales, *z = &w->zeros;
    if (!q->data || q->dtype != SAC_DTYPE_AWQ || q->dim[0] != n || q->dim[1] != k || n % 8) return false;
    if (w->group < 1 || k % w->group) return false;
    if (!s->data || s->dtype != SAC_DTYPE_F16 || s->dim[0] != k / w->group || s->dim[1] != n) return false;
    return z->data && z->dtype == SAC_DTYPE_AWQ && z->dim[0] == s->dim[0] && z->dim[1] == n;
}

/* Nibble j of a row of n outputs. */
static int nibble(const sac_tensor *t, int64_t row, int64_t n, int64_t j) {
    static const int at[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    const uint8_t *word = (const uint8_t *)t->data + (row * n + j / 8 * 8) / 2;
    return word[at[j % 8] / 2] >> (at[j % 8] % 2 * 4) & 15;
}

static void row(const sac_weight *w, int64_t j, int64_t k, float *y) {
    const int64_t n = w->tensor.dim[0];
    for (int64_t c = 0; c < k; c++) {
        int64_t g = c / w->group;
        float scale = sac_f16_to_f32(((const uint16_t *)w->scales.data)[g * n + j]);
        y[c] = scale * (float)(nibble(&w->tensor, c, n, j) - nibble(&w->zeros, g, n, j));
    }
}

const sac_ref_weight sac_ref_weight_awq = {.holds = holds, .row = row};
