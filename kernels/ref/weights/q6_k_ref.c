/* GGUF's q6_k: 256 elements of 6 bits, a scale of 8 bits for each 16, and a scale of these. */
#include "quants.h"
#include "ref_weights.h"
#include "rounded_x.h"

#include <math.h>

/* Element j of a q6_k block, -32..31. In each half of 128: the low four bits of elements 0-63 and 64-127
 * share 64 bytes of `low`, the high two of elements j, j + 32, j + 64 and j + 96 one byte of `high`. */
static int q6_k_element(const sac_block_q6_k *b, int j) {
    int half = j / 128, r = j % 128;
    int low = b->low[half * 64 + r % 64] >> (r / 64 * 4) & 15;
    int high = b->high[half * 32 + r % 32] >> (r / 32 * 2) & 3;
    return (low | high << 4) - 32;
}

/* w = d scale q, a scale for each 16 of 256 */
static void row(const sac_weight *w, int64_t r, int64_t n, float *y) {
    const sac_block_q6_k *b = sac_ref_row_of(w, r);
    for (int64_t i = 0; i < n / 256; i++, b++, y += 256) {
        float d = sac_f16_to_f32(b->d);
        for (int j = 0; j < 256; j++) y[j] = d * (float)b->scales[j / 16] * (float)q6_k_element(b, j);
    }
}

static float dot(const void *row_of_w, const void *xq, int64_t n) {
    const sac_block_q6_k *w = row_of_w;
    const sac_xblock_q8_k *x = xq;
    float sum = 0;
    for (int64_t i = 0; i < n / 256; i++) {
        float scaled = 0;
        for (int g = 0; g < 16; g++) {
            int isum = 0;
            for (int j = 16 * g; j < 16 * g + 16; j++) isum += q6_k_element(&w[i], j) * x[i].q[j];
            scaled = fmaf((float)isum, (float)w[i].scales[g], scaled);
        }
        sum = fmaf(sac_f16_to_f32(w[i].d) * scaled, x[i].d, sum);
    }
    return sum;
}

const sac_ref_weight sac_ref_weight_q6_k = {.holds = sac_ref_holds_rows,
                                            .row = row,
                                            .x_block_bytes = sizeof(sac_xblock_q8_k),
                                            .round_x = sac_round_to_q8_k,
                                            .dot = dot};
