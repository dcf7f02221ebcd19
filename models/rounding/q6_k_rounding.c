/* 256 elements in sixteen groups with a scale of 8 bits each, codes of 6 bits around 32. */
#include "k_search.h"
#include "quants.h"
#include "rounding.h"

#include <math.h>

static float error_of(const float x[16], float step) {
    const float inverse = step != 0 ? 1 / step : 0;
    float error = 0;
    for (int i = 0; i < 16; i++) {
        float q = sac_nearest(x[i] * inverse);
        q = q < -32 ? -32 : q > 31 ? 31 : q;
        error += (x[i] - q * step) * (x[i] - q * step);
    }
    return error;
}

/* The multiple of d near the scale that was found with the least error. */
static int choose_multiple(const float x[16], float d, float scale) {
    const float nearest = d != 0 ? rintf(scale / d) : 0;
    const int middle = nearest < -128 ? -128 : nearest > 127 ? 127 : (int)nearest;
    int chosen = middle;
    float best = INFINITY;
    for (int s = middle - 1; s <= middle + 1; s++) {
        if (s < -128 || s > 127) continue;
        const float error = error_of(x, d * (float)s);
        if (error < best) best = error, chosen = s;
    }
    return chosen;
}

/* A half has two rows of 64 bytes of low bits' 32, and 32 bytes with the two high bits of four elements each. */
static void pack_half(const uint8_t q[128], uint8_t low[64], uint8_t high[32]) {
    for (int i = 0; i < 32; i++) {
        low[i] = (uint8_t)((q[i] & 15) | (q[i + 64] & 15) << 4);
        low[i + 32] = (uint8_t)((q[i + 32] & 15) | (q[i + 96] & 15) << 4);
        high[i] = (uint8_t)(q[i] >> 4 | q[i + 32] >> 4 << 2 | q[i + 64] >> 4 << 4 | q[i + 96] >> 4 << 6);
    }
}

void sac_pack_q6_k(const uint8_t q[256], sac_block_q6_k *b) {
    pack_half(q, b->low, b->high);
    pack_half(q + 128, b->low + 64, b->high + 32);
}

void sac_round_q6_k(const float *x, void *out, int64_t n) {
    uint8_t *to = out, q[256];
    for (int64_t at = 0; at < n; at += 256, x += 256, to += sizeof(sac_block_q6_k)) {
        sac_block_q6_k b;
        float scale[16], largest = 0;
        for (int g = 0; g < 16; g++) {
            scale[g] = sac_search_signed(x + 16 * g, 16, 32);
            if (fabsf(scale[g]) > fabsf(largest)) largest = scale[g];
        }
        b.d = sac_f32_to_f16(largest / -128);
        const float d = sac_f16_to_f32(b.d);
        for (int g = 0; g < 16; g++) {
            b.scales[g] = (int8_t)choose_multiple(x + 16 * g, d, scale[g]);
            const float step = d * (float)b.scales[g], inverse = step != 0 ? 1 / step : 0;
            for (int i = 16 * g; i < 16 * g + 16; i++) {
                const float code = sac_nearest(x[i] * inverse);
                q[i] = (uint8_t)((code < -32 ? -32 : code > 31 ? 31 : (int)code) + 32);
            }
        }
        sac_pack_q6_k(q, &b);
        memcpy(to, &b, sizeof b);
    }
}
