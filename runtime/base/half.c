#include "dtype.h"

/* Of values alone: no memory of a caller is touched here. */

float sac_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 0x1fu, mantissa = h & 0x3ffu, u;
    if (exponent == 0x1f)
        u = sign | 0x7f800000u | (mantissa << 13);
    else if (exponent)
        u = sign | ((exponent + 112) << 23) | (mantissa << 13);
    else { /* subnormal or zero: mantissa * 2^-24, exact in f32 */
        float f = (float)mantissa * 0x1p-24f;
        memcpy(&u, &f, 4);
        u |= sign;
    }
    float f;
    memcpy(&f, &u, 4);
    return f;
}

uint16_t sac_f32_to_f16(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    uint16_t sign = (uint16_t)((u >> 16) & 0x8000u);
    uint32_t a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and up round to infinity */
    if (a < 0x38800000u) { /* below 2^-14: units of 2^-24, ties to even by the adder */
        float t;
        memcpy(&t, &a, 4);
        t = t * 0x1p24f + 0x1p23f;
        uint32_t r;
        memcpy(&r, &t, 4);
        return (uint16_t)(sign | (uint16_t)(r - 0x4b000000u));
    }
    a += 0xfffu + ((a >> 13) & 1u);
    return (uint16_t)(sign | (uint16_t)((a - 0x38000000u) >> 13));
}
