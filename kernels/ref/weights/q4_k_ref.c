/* GGUF's q4_k: 256 elements of 4 bits, a scale and a minimum of 6 bits for each 32, and a scale for each of
 * these two. */
#include "quants.h"
#include "ref_weights.h"
#include "rounded_x.h"

#include <math.h>

/* Bytes 0-3 hold scales 0-3 and bytes 4-7 minima 0-3 in their low six bits; the top two bits of each are
 * those of scale and minimum 4-7, whose low four share bytes 8-11. */
void sac_q4_k_scales(const sac_block_q4_k *b, uint8_t scale[8], uint8_t min[8]) {
    const uint8_t *s = b->scales;
    for (int j = 0; j < 4; j++) {
        scale[j] = s[j] & 63;
        min[j] = s[j + 4] & 63;
        scale[j + 4] = (uint8_t)((s[j + 8] & 15) | (s[j] >> 6 << 4));
        min[j + 4] = (uint8_t)((s[j + 8] >> 4) | (s[j + 4] >> 6 << 4));
    }
}

/* w = d scale q - dmin min, a scale and a minimum for each 32 of 256. Each 32 bytes of q hold two such
 * sub-blocks: the first in the low four bits, the second in the high. */
static void row(const sac_weight *w, int64_t r, int64_t n, float *y) {
    const sac_block_q4_k *b = sac_ref_row_of(w, r);
    for (int64_t i = 0; i < n / 256; i++, b++, y += 256) {
        float d = sac_f16_to_f32(b->d), dmin = sac_f16_to_f32(b->dmin);
        uint8_t scale[8], min[8];
        sac_q4_k_scales(b, scale, min);
        for (int j = 0; j < 256; j++) {
            int q = b->q[j / 64 * 32 + j % 32] >> (j % 64 / 32 * 4) & 15;
            y[j] = d * (float)scale[j / 32] * (float)q - dmin * (float)min[j / 32];
        }
    }
}

static float dot(const void *row_of_w, const void *xq, int64_t n) {
    const sac_block_q4_k *w = row_of_w;
    const sac_xblock_q8_k *x = xq;
    float sum = 0;
    for (int64_t i = 0; i < n / 256; i++) {
        uint8_t scale[8], min[8];
        sac_q4_k_scales(&w[i], scale, min);
        float scaled = 0;
        int imin = 0;
        for (int g = 0; g < 8; g++) {
            const uint8_t *q = w[i].q + g / 2 * 32;
            int isum = 0;
            for (int j = 0; j < 32; j++) isum += (q[j] >> (g % 2 * 4) & 15) * x[i].q[32 * g + j];
            scaled = fmaf((float)isum, (float)scale[g], scaled);
            imin += min[g] * (x[i].sum[2 * g] + x[i].sum[2 * g + 1]);
        }
        float minima = sac_f16_to_f32(w[i].dmin) * (float)imin;
        sum = fmaf(fmaf(sac_f16_to_f32(w[i].d), scaled, -minima), x[i].d, sum);
    }
    return sum;
}

const sac_ref_weight sac_ref_weight_q4_k = {.holds = sac_ref_holds_rows,
                                            .row = row,
                                            .x_block_bytes = sizeof(sac_xblock_q8_k),
                                            .round_x = sac_round_to_q8_k,
                                            .dot = dot};
