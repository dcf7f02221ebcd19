#include "x_rounding.h"

#include <math.h>
#include <stdbool.h>

float sac_e4m3_to_f32(uint8_t b) {
    const int exponent = b >> 3 & 15, mantissa = b & 7;
    const uint32_t u = (uint32_t)(exponent + 120) << 23 | (uint32_t)mantissa << 20;
    float v = (float)mantissa * 0x1p-9f;
    if (exponent) memcpy(&v, &u, 4);
    if ((b & 0x7f) == 0x7f) v = NAN;
    return b & 0x80 ? -v : v;
}

/* Numbers below 2^-6 are 2^-9 apart; above, four bits count, and the adder of integers carries into the exponent. */
float sac_round_to_e4m3(float v) {
    if (fabsf(v) < 0x1p-6f) return rintf(v * 0x1p9f) * 0x1p-9f;
    uint32_t u;
    memcpy(&u, &v, 4);
    u = (u + 0x7ffffu + (u >> 20 & 1u)) & ~0xfffffu;
    memcpy(&v, &u, 4);
    return v;
}

/* What n elements share. A NaN makes it NaN, and with it all of them. */
static float scale_of(const float *x, int64_t n, float most) {
    float largest = 0;
    for (int64_t i = 0; i < n; i++) {
        float size = fabsf(x[i]);
        if (!(size <= largest)) largest = size;
    }
    return largest / most;
}

static void round_group(const float *x, float *y, int64_t n, bool is_int8, float scale) {
    for (int64_t i = 0; i < n; i++) {
        float v = scale != 0 ? x[i] / scale : 0;
        if (is_int8)
            v = rintf(v) > 127 ? 127 : rintf(v) < -128 ? -128 : rintf(v);
        else
            v = sac_round_to_e4m3(v > 448 ? 448 : v < -448 ? -448 : v);
        y[i] = v * scale;
    }
}

void sac_round_x(const sac_weight *w, const float *x, float *y, int64_t k) {
    const int64_t group = w->x_rounding == SAC_X_FP8_GROUPS ? w->group : k;
    const bool is_static = w->x_rounding == SAC_X_FP8_STATIC || w->x_rounding == SAC_X_INT8_STATIC,
               is_int8 = w->x_rounding == SAC_X_INT8_ROWS || w->x_rounding == SAC_X_INT8_STATIC;
    for (int64_t p = 0; p < k; p += group) {
        const int64_t n = k - p < group ? k - p : group;
        round_group(x + p, y + p, n, is_int8, is_static ? w->x_scale : scale_of(x + p, n, is_int8 ? 127.5f : 448.0f));
    }
}
