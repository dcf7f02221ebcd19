#include "quants.h"

#include <assert.h>
#include <math.h>

/* ---- weights to f32 ---- */

static void f16_row(const uint16_t *h, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = sac_f16_to_f32(h[i]);
}

static void bf16_row(const uint16_t *h, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = sac_bf16_to_f32(h[i]);
}

/* w = d q */
static void q8_0_row(const sac_block_q8_0 *b, float *y, int64_t n) {
    for (int64_t i = 0; i < n / 32; i++, b++, y += 32) {
        float d = sac_f16_to_f32(b->d);
        for (int j = 0; j < 32; j++) y[j] = d * (float)b->q[j];
    }
}

/* w = d (q - 8). Byte j holds elements j (low four bits) and j + 16 (high). */
static void q4_0_row(const sac_block_q4_0 *b, float *y, int64_t n) {
    for (int64_t i = 0; i < n / 32; i++, b++, y += 32) {
        float d = sac_f16_to_f32(b->d);
        for (int j = 0; j < 16; j++) {
            y[j] = d * (float)((b->q[j] & 15) - 8);
            y[j + 16] = d * (float)((b->q[j] >> 4) - 8);
        }
    }
}

/* w = d q + m, packed like q4_0 */
static void q4_1_row(const sac_block_q4_1 *b, float *y, int64_t n) {
    for (int64_t i = 0; i < n / 32; i++, b++, y += 32) {
        float d = sac_f16_to_f32(b->d), m = sac_f16_to_f32(b->m);
        for (int j = 0; j < 16; j++) {
            y[j] = d * (float)(b->q[j] & 15) + m;
            y[j + 16] = d * (float)(b->q[j] >> 4) + m;
        }
    }
}

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
static void q4_k_row(const sac_block_q4_k *b, float *y, int64_t n) {
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

/* Element j of a q6_k block, -32..31. In each half of 128: the low four bits of elements 0-63 and 64-127
 * share 64 bytes of `low`, the high two of elements j, j + 32, j + 64 and j + 96 one byte of `high`. */
static int q6_k_element(const sac_block_q6_k *b, int j) {
    int half = j / 128, r = j % 128;
    int low = b->low[half * 64 + r % 64] >> (r / 64 * 4) & 15;
    int high = b->high[half * 32 + r % 32] >> (r / 32 * 2) & 3;
    return (low | high << 4) - 32;
}

/* w = d scale q, a scale for each 16 of 256 */
static void q6_k_row(const sac_block_q6_k *b, float *y, int64_t n) {
    for (int64_t i = 0; i < n / 256; i++, b++, y += 256) {
        float d = sac_f16_to_f32(b->d);
        for (int j = 0; j < 256; j++) y[j] = d * (float)b->scales[j / 16] * (float)q6_k_element(b, j);
    }
}

void sac_dequantize_row(sac_dtype t, const void *row, float *y, int64_t n) {
    assert(n % sac_dtype_block(t) == 0);
    switch (t) {
    case SAC_DTYPE_F32: memcpy(y, row, (size_t)n * sizeof *y); return;
    case SAC_DTYPE_F16: f16_row(row, y, n); return;
    case SAC_DTYPE_BF16: bf16_row(row, y, n); return;
    case SAC_DTYPE_Q8_0: q8_0_row(row, y, n); return;
    case SAC_DTYPE_Q4_0: q4_0_row(row, y, n); return;
    case SAC_DTYPE_Q4_1: q4_1_row(row, y, n); return;
    case SAC_DTYPE_Q4_K: q4_k_row(row, y, n); return;
    case SAC_DTYPE_Q6_K: q6_k_row(row, y, n); return;
    case SAC_N_DTYPES: break;
    }
    assert(0 && "no such dtype");
}

/* ---- activations to 8 bits ---- */

/* Largest |x|; the bits of non-negative floats order like integers, NaN above infinity, so a NaN wins. */
static float largest_magnitude(const float *x, int n) {
    uint32_t max = 0;
    for (int i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &x[i], 4);
        u &= 0x7fffffffu;
        max = u > max ? u : max;
    }
    float f;
    memcpy(&f, &max, 4);
    return f;
}

/* |v| <= 127 to the nearest integer, ties to even: adding 1.5 * 2^23 leaves it in the low bits. Defined, if
 * meaningless, for NaN. */
static int8_t nearest(float v) {
    float shifted = v + 0x1.8p23f;
    uint32_t u;
    memcpy(&u, &shifted, 4);
    return (int8_t)(uint8_t)u;
}

static int round_block(const float *x, int8_t *q, float inverse, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        q[i] = nearest(x[i] * inverse);
        sum += q[i];
    }
    return sum;
}

static void quantize_q8_0(const float *x, sac_xblock_q8_0 *y, int64_t n) {
    for (int64_t i = 0; i < n / 32; i++, x += 32, y++) {
        float max = largest_magnitude(x, 32);
        y->d = sac_f32_to_f16(max / 127);
        round_block(x, y->q, max != 0 ? 127 / max : 0, 32);
    }
}

static void quantize_q8_1(const float *x, sac_xblock_q8_1 *y, int64_t n) {
    for (int64_t i = 0; i < n / 32; i++, x += 32, y++) {
        float max = largest_magnitude(x, 32), d = max / 127;
        y->d = sac_f32_to_f16(d);
        y->s = sac_f32_to_f16(d * (float)round_block(x, y->q, max != 0 ? 127 / max : 0, 32));
    }
}

/* GGML gives the element of largest magnitude the value -127, whatever its sign; taking +-127 by its sign
 * negates d and q together and leaves every product the same. */
static void quantize_q8_k(const float *x, sac_xblock_q8_k *y, int64_t n) {
    for (int64_t i = 0; i < n / 256; i++, x += 256, y++) {
        float max = largest_magnitude(x, 256), inverse = max != 0 ? 127 / max : 0;
        y->d = max != 0 ? 1 / inverse : 0;
        for (int g = 0; g < 16; g++) y->sum[g] = (int16_t)round_block(x + 16 * g, y->q + 16 * g, inverse, 16);
    }
}

void sac_quantize_activations(sac_dtype w, const float *x, void *xq, int64_t n) {
    assert(n % sac_dtype_block(w) == 0);
    switch (w) {
    case SAC_DTYPE_Q8_0:
    case SAC_DTYPE_Q4_0: quantize_q8_0(x, xq, n); return;
    case SAC_DTYPE_Q4_1: quantize_q8_1(x, xq, n); return;
    case SAC_DTYPE_Q4_K:
    case SAC_DTYPE_Q6_K: quantize_q8_k(x, xq, n); return;
    default: assert(0 && "not a quantised dtype");
    }
}

size_t sac_activation_row_bytes(sac_dtype w, int64_t n) {
    size_t block = w == SAC_DTYPE_Q4_1                          ? sizeof(sac_xblock_q8_1)
                   : w == SAC_DTYPE_Q4_K || w == SAC_DTYPE_Q6_K ? sizeof(sac_xblock_q8_k)
                                                                : sizeof(sac_xblock_q8_0);
    return (size_t)(n / sac_dtype_block(w)) * block;
}

/* ---- products ---- */

static float dot_q8_0(const sac_block_q8_0 *w, const sac_xblock_q8_0 *x, int64_t n) {
    float sum = 0;
    for (int64_t i = 0; i < n / 32; i++) {
        int isum = 0;
        for (int j = 0; j < 32; j++) isum += w[i].q[j] * x[i].q[j];
        sum = fmaf(sac_f16_to_f32(w[i].d) * (float)isum, sac_f16_to_f32(x[i].d), sum);
    }
    return sum;
}

/* Sum of x q over a block of 32 packed like q4_0. */
static int dot_nibbles(const uint8_t *w, const int8_t *x) {
    int isum = 0;
    for (int j = 0; j < 16; j++) isum += (w[j] & 15) * x[j] + (w[j] >> 4) * x[j + 16];
    return isum;
}

static float dot_q4_0(const sac_block_q4_0 *w, const sac_xblock_q8_0 *x, int64_t n) {
    float sum = 0;
    for (int64_t i = 0; i < n / 32; i++) {
        int isum = dot_nibbles(w[i].q, x[i].q);
        for (int j = 0; j < 32; j++) isum -= 8 * x[i].q[j];
        sum = fmaf(sac_f16_to_f32(w[i].d) * (float)isum, sac_f16_to_f32(x[i].d), sum);
    }
    return sum;
}

/* Two sums, joined at the end: a fast kernel takes the minima in a pass of their own. */
static float dot_q4_1(const sac_block_q4_1 *w, const sac_xblock_q8_1 *x, int64_t n) {
    float sum = 0, minima = 0;
    for (int64_t i = 0; i < n / 32; i++) {
        int isum = dot_nibbles(w[i].q, x[i].q);
        sum = fmaf(sac_f16_to_f32(w[i].d) * (float)isum, sac_f16_to_f32(x[i].d), sum);
        minima = fmaf(sac_f16_to_f32(w[i].m), sac_f16_to_f32(x[i].s), minima);
    }
    return sum + minima;
}

static float dot_q4_k(const sac_block_q4_k *w, const sac_xblock_q8_k *x, int64_t n) {
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

static float dot_q6_k(const sac_block_q6_k *w, const sac_xblock_q8_k *x, int64_t n) {
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

float sac_quant_dot(sac_dtype w, const void *row, const void *xq, int64_t n) {
    switch (w) {
    case SAC_DTYPE_Q8_0: return dot_q8_0(row, xq, n);
    case SAC_DTYPE_Q4_0: return dot_q4_0(row, xq, n);
    case SAC_DTYPE_Q4_1: return dot_q4_1(row, xq, n);
    case SAC_DTYPE_Q4_K: return dot_q4_k(row, xq, n);
    case SAC_DTYPE_Q6_K: return dot_q6_k(row, xq, n);
    default: assert(0 && "not a quantised dtype"); return NAN;
    }
}
