/* GGUF's q4_0: 32 elements of 4 bits with a scale. */
#include "nibbles.h"
#include "quants.h"
#include "ref_weights.h"
#include "rounded_x.h"

#include <math.h>

/* w = d (q - 8). Byte j holds elements j (low four bits) and j + 16 (high). */
static void row(const sac_weight *w, int64_t r, int64_t n, float *y) {
    const sac_block_q4_0 *b = sac_ref_row_of(w, r);
    for (int64_t i = 0; i < n / 32; i++, b++, y += 32) {
        float d = sac_f16_to_f32(b->d);
        for (int j = 0; j < 16; j++) {
            y[j] = d * (float)((b->q[j] & 15) - 8);
            y[j + 16] = d * (float)((b->q[j] >> 4) - 8);
        }
    }
}

static float dot(const void *row_of_w, const void *xq, int64_t n) {
    const sac_block_q4_0 *w = row_of_w;
    const sac_xblock_q8_0 *x = xq;
    float sum = 0;
    for (int64_t i = 0; i < n / 32; i++) {
        int isum = sac_dot_nibbles(w[i].q, x[i].q);
        for (int j = 0; j < 32; j++) isum -= 8 * x[i].q[j];
        sum = fmaf(sac_f16_to_f32(w[i].d) * (float)isum, sac_f16_to_f32(x[i].d), sum);
    }
    return sum;
}

const sac_ref_weight sac_ref_weight_q4_0 = {.holds = sac_ref_holds_rows,
                                            .row = row,
                                            .x_block_bytes = sizeof(sac_xblock_q8_0),
                                            .round_x = sac_round_to_q8_0,
                                            .dot = dot};
