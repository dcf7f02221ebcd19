#include "rounded_x.h"

#include "quants.h"

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

void sac_round_to_q8_0(const float *x, void *blocks, int64_t n) {
    sac_xblock_q8_0 *y = blocks;
    for (int64_t i = 0; i < n / 32; i++, x += 32, y++) {
        float max = largest_magnitude(x, 32);
        y->d = sac_f32_to_f16(max / 127);
        round_block(x, y->q, max != 0 ? 127 / max : 0, 32);
    }
}

void sac_round_to_q8_1(const float *x, void *blocks, int64_t n) {
    sac_xblock_q8_1 *y = blocks;
    for (int64_t i = 0; i < n / 32; i++, x += 32, y++) {
        float max = largest_magnitude(x, 32), d = max / 127;
        y->d = sac_f32_to_f16(d);
        y->s = sac_f32_to_f16(d * (float)round_block(x, y->q, max != 0 ? 127 / max : 0, 32));
    }
}

/* GGML gives the element of largest magnitude the value -127, whatever its sign; taking +-127 by its sign
 * negates d and q together and leaves every product the same. */
void sac_round_to_q8_k(const float *x, void *blocks, int64_t n) {
    sac_xblock_q8_k *y = blocks;
    for (int64_t i = 0; i < n / 256; i++, x += 256, y++) {
        float max = largest_magnitude(x, 256), inverse = max != 0 ? 127 / max : 0;
        y->d = max != 0 ? 1 / inverse : 0;
        for (int g = 0; g < 16; g++) y->sum[g] = (int16_t)round_block(x + 16 * g, y->q + 16 * g, inverse, 16);
    }
}
