#include "legacy_blocks.h"

#include <math.h>

/* 1 / d; of a scale so small that this is not finite, as of 0, all codes are the middle one. */
static float inverse(float d) {
    float id = d == 0 ? 0 : 1 / d;
    return isfinite(id) ? id : 0;
}

static uint8_t code(float scaled, int most) {
    int q = (int)scaled;
    return (uint8_t)(q < 0 ? 0 : q > most ? most : q);
}

uint16_t sac_block_around(const float x[32], int middle, uint8_t q[32]) {
    float most = 0, at_most = 0;
    for (int i = 0; i < 32; i++)
        if (fabsf(x[i]) > most) most = fabsf(x[i]), at_most = x[i];
    const float d = at_most / (float)-middle, id = inverse(d), half = (float)middle + 0.5f;
    for (int i = 0; i < 32; i++) q[i] = code(x[i] * id + half, 2 * middle - 1);
    return sac_f32_to_f16(d);
}

void sac_block_between(const float x[32], int most, uint16_t *d, uint16_t *m, uint8_t q[32]) {
    float low = x[0], high = x[0];
    for (int i = 1; i < 32; i++) {
        if (x[i] < low) low = x[i];
        if (x[i] > high) high = x[i];
    }
    const float scale = (high - low) / (float)most, id = inverse(scale);
    for (int i = 0; i < 32; i++) q[i] = code((x[i] - low) * id + 0.5f, most);
    *d = sac_f32_to_f16(scale);
    *m = sac_f32_to_f16(low);
}

void sac_block_nibbles(const uint8_t q[32], uint8_t out[16]) {
    for (int i = 0; i < 16; i++) out[i] = (uint8_t)((q[i] & 15) | (q[i + 16] & 15) << 4);
}

void sac_block_fifth_bits(const uint8_t q[32], uint8_t out[4]) {
    memset(out, 0, 4);
    for (int i = 0; i < 32; i++) out[i / 8] = (uint8_t)(out[i / 8] | (q[i] >> 4 & 1) << i % 8);
}
