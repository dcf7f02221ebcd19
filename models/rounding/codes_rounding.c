/* Codes with scales apart, as compressed-tensors has them, symmetric: of b bits from -2^(b-1) to 2^(b-1) - 1, the scale
 * being the largest magnitude over half of that range, ties to even; of e4m3 the largest magnitude over 448. Packed
 * codes have half of the range added, the first of a row in the lowest bits. A group of zeros has a scale that is not 0. */
#include "rounding.h"

#include <float.h>
#include <math.h>

static float half_range_of(sac_dtype type) {
    return type == SAC_DTYPE_FP8 ? 448 : type == SAC_DTYPE_PACKED_4 ? 7.5f : 127.5f;
}

static float stored_scale(const sac_code_format *f, float scale) {
    if (f->scale_type == SAC_DTYPE_F16)
        scale = sac_f16_to_f32(sac_f32_to_f16(scale));
    else if (f->scale_type == SAC_DTYPE_BF16)
        scale = sac_bf16_to_f32(sac_f32_to_bf16(scale));
    if (scale > 0) return scale;
    return f->scale_type == SAC_DTYPE_F16 ? 0x1p-10f : f->scale_type == SAC_DTYPE_BF16 ? 0x1p-7f : FLT_EPSILON;
}

float sac_code_scale(const sac_code_format *f, const float *x, int64_t n) {
    float most = 0;
    for (int64_t i = 0; i < n; i++) most = fmaxf(most, fabsf(x[i]));
    return stored_scale(f, most / half_range_of(f->type));
}

void sac_code_store_scale(const sac_code_format *f, float scale, void *scales, int64_t at) {
    if (f->scale_type == SAC_DTYPE_F32) {
        memcpy((uint8_t *)scales + 4 * at, &scale, 4);
        return;
    }
    uint16_t h = f->scale_type == SAC_DTYPE_F16 ? sac_f32_to_f16(scale) : sac_f32_to_bf16(scale);
    memcpy((uint8_t *)scales + 2 * at, &h, 2);
}

static int whole_code(float x, float scale, int bits) {
    const float q = rintf(x / scale), low = -(float)(1 << (bits - 1)), high = (float)((1 << (bits - 1)) - 1);
    return (int)(q < low ? low : q > high ? high : q);
}

/* Elements [from, to) of a row; from is even where two share a byte. */
static void store_codes(sac_dtype type, const float *x, int64_t from, int64_t to, float scale, uint8_t *out) {
    for (int64_t i = from; i < to; i++) {
        if (type == SAC_DTYPE_FP8)
            out[i] = sac_f32_to_e4m3(x[i] / scale);
        else if (type == SAC_DTYPE_I8)
            out[i] = (uint8_t)whole_code(x[i], scale, 8);
        else if (type == SAC_DTYPE_PACKED_8)
            out[i] = (uint8_t)(whole_code(x[i], scale, 8) + 128);
        else if (i % 2 == 0)
            out[i / 2] = (uint8_t)(whole_code(x[i], scale, 4) + 8);
        else
            out[i / 2] = (uint8_t)(out[i / 2] | (whole_code(x[i], scale, 4) + 8) << 4);
    }
}

void sac_round_codes(const sac_code_format *f, const float *x, int64_t n, void *codes, void *scales) {
    const int64_t n_groups = sac_code_groups(f, n), group = n_groups == 1 ? n : f->group;
    for (int64_t g = 0; g < n_groups; g++) {
        const int64_t from = g * group, to = from + group < n ? from + group : n;
        const float scale = sac_code_scale(f, x + from, to - from);
        if (scales) sac_code_store_scale(f, scale, scales, g);
        if (codes) store_codes(f->type, x, from, to, scale, codes);
    }
}

double sac_code_nearest(sac_dtype type, double x, uint8_t *code) {
    if (type == SAC_DTYPE_FP8) {
        *code = sac_f32_to_e4m3((float)x);
        const int e = *code >> 3 & 15, m = *code & 7;
        const double v = e ? ldexp(8 + m, e - 10) : ldexp(m, -9);
        return *code & 0x80 ? -v : v;
    }
    const int half = type == SAC_DTYPE_PACKED_4 ? 8 : 128;
    const double q = rint(x), nearest = q < -half ? -half : q > half - 1 ? half - 1 : q;
    *code = (uint8_t)((int)nearest + (type == SAC_DTYPE_I8 ? 0 : half));
    return nearest;
}

void sac_code_values(const sac_code_format *f, float *x, int64_t n) {
    const int64_t n_groups = sac_code_groups(f, n), group = n_groups == 1 ? n : f->group;
    uint8_t code;
    for (int64_t from = 0; from < n; from += group) {
        const int64_t to = from + group < n ? from + group : n;
        const float scale = sac_code_scale(f, x + from, to - from);
        for (int64_t i = from; i < to; i++)
            x[i] = (float)sac_code_nearest(f->type, (double)(x[i] / scale), &code) * scale;
    }
}

void sac_code_pack(sac_dtype type, const uint8_t *codes, int64_t n, uint8_t *out) {
    if (type != SAC_DTYPE_PACKED_4) {
        memcpy(out, codes, (size_t)n);
        return;
    }
    for (int64_t i = 0; i < n; i += 2) out[i / 2] = (uint8_t)(codes[i] | codes[i + 1] << 4);
}

/* Seven exponents below 2^-6 share the step 2^-9; above, a number has three bits behind its first. */
uint8_t sac_f32_to_e4m3(float x) {
    const uint8_t sign = signbit(x) ? 0x80 : 0;
    float most = fabsf(x);
    if (most != most) return 0x7f;
    if (most > 448) most = 448;
    if (most < 0x1p-6f) return sign | (uint8_t)rintf(most * 0x1p9f); /* 8 of them are the first of the others */
    uint32_t bits;
    memcpy(&bits, &most, 4);
    bits += 0x7ffff + (bits >> 20 & 1);
    return sign | (uint8_t)((bits >> 20) - (uint32_t)((127 - 7) << 3));
}
