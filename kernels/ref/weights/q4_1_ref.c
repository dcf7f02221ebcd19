/* GGUF's q4_1: 32 elements of 4 bits with a scale and a minimum. */
#include "nibbles.h"
#include "quants.h"
#include "ref_weights.h"
#include "rounded_x.h"

#include <math.h>

/* w = d q + m, packed like q4_0 */
static void row(const sac_weight *w, int64_t r, int64_t n, float *y) {
    const sac_block_q4_1 *b = sac_ref_row_of(w, r);
    for (int64_t i = 0; i < n / 32; i++, b++, y += 32) {
        float d = sac_f16_to_f32(b->d), m = sac_f16_to_f32(b->m);
        for (int j = 0; j < 16; j++) {
            y[j] = d * (float)(b->q[j] & 15) + m;
            y[j + 16] = d * (float)(b->q[j] >> 4) + m;
        }
    }
}

/* Two sums, joined at the end: a fast kernel takes the minima in a pass of their own. */
static float dot(const void *row_of_w, const void *xq, int64_t n) {
    const sac_block_q4_1 *w = row_of_w;
    const sac_xblock_q8_1 *x = xq;
    float sum = 0, minima = 0;
    for (int64_t i = 0; i < n / 32; i++) {
        int isum = sac_dot_nibbles(w[i].q, x[i].q);
        sum = fmaf(sac_f16_to_f32(w[i].d) * (float)isum, sac_f16_to_f32(x[i].d), sum);
        minima = fmaf(sac_f16_to_f32(w[i].m), sac_f16_to_f32(x[i].s), minima);
    }
    return sum + minima;
}

const sac_ref_weight sac_ref_weight_q4_1 = {.holds = sac_ref_holds_rows,
                                            .row = row,
                                            .x_block_bytes = sizeof(sac_xblock_q8_1),
                                            .round_x = sac_round_to_q8_1,
                                            .dot = dot};
