/* weighted_rounding.c - the blocks of GGUF with scales that are chosen by what each column meets. */
#include "k_search.h"
#include "legacy_blocks.h"
#include "rounding.h"
#include "weighted_search.h"

#include <math.h>

/* Columns that met nothing count a little. */
#define DAMPING 0.01f
enum { MOST_BLOCK = 256 };

typedef void (*round_fn)(const float *x, const float *w, void *out);

static void codes_of(const float *x, float d, float m, int least, int most, uint8_t q[32]) {
    for (int i = 0; i < 32; i++) q[i] = (uint8_t)(sac_weighted_code(x[i], d, m, least, most) - least);
}

static uint16_t around(const float *x, const float *w, int middle, uint8_t q[32]) {
    const uint16_t d = sac_f32_to_f16(sac_weighted_signed(x, w, 32, middle));
    codes_of(x, sac_f16_to_f32(d), 0, -middle, middle - 1, q);
    return d;
}

static void between(const float *x, const float *w, int most, uint16_t *d, uint16_t *m, uint8_t q[32]) {
    float scale, offset;
    sac_weighted_offset(x, w, 32, most, true, &scale, &offset);
    *d = sac_f32_to_f16(scale);
    *m = sac_f32_to_f16(offset);
    codes_of(x, sac_f16_to_f32(*d), sac_f16_to_f32(*m), 0, most, q);
}

static void q4_0(const float *x, const float *w, void *out) {
    sac_block_q4_0 b;
    uint8_t q[32];
    b.d = around(x, w, 8, q);
    sac_block_nibbles(q, b.q);
    memcpy(out, &b, sizeof b);
}

static void q4_1(const float *x, const float *w, void *out) {
    sac_block_q4_1 b;
    uint8_t q[32];
    between(x, w, 15, &b.d, &b.m, q);
    sac_block_nibbles(q, b.q);
    memcpy(out, &b, sizeof b);
}

static void q5_0(const float *x, const float *w, void *out) {
    sac_block_q5_0 b;
    uint8_t q[32];
    b.d = around(x, w, 16, q);
    sac_block_fifth_bits(q, b.high);
    sac_block_nibbles(q, b.q);
    memcpy(out, &b, sizeof b);
}

static void q5_1(const float *x, const float *w, void *out) {
    sac_block_q5_1 b;
    uint8_t q[32];
    between(x, w, 31, &b.d, &b.m, q);
    sac_block_fifth_bits(q, b.high);
    sac_block_nibbles(q, b.q);
    memcpy(out, &b, sizeof b);
}

static void q4_k(const float *x, const float *w, void *out) {
    sac_block_q4_k b;
    uint8_t q[256];
    sac_weighted_k_block(x, w, 15, &b.d, &b.dmin, b.scales, q);
    sac_pack_q4_k(q, &b);
    memcpy(out, &b, sizeof b);
}

static void q5_k(const float *x, const float *w, void *out) {
    sac_block_q5_k b;
    uint8_t q[256];
    sac_weighted_k_block(x, w, 31, &b.d, &b.dmin, b.scales, q);
    sac_pack_q5_k(q, &b);
    memcpy(out, &b, sizeof b);
}

static int choose_multiple(const float *x, const float *w, float d, float scale) {
    const float nearest = d != 0 ? rintf(scale / d) : 0;
    const int middle = nearest < -128 ? -128 : nearest > 127 ? 127 : (int)nearest;
    int chosen = middle;
    double best = INFINITY;
    for (int s = middle > -128 ? middle - 1 : middle; s <= middle + 1 && s <= 127; s++) {
        const double error = sac_weighted_error(x, w, 16, d * (float)s, 0, -32, 31);
        if (error < best) best = error, chosen = s;
    }
    return chosen;
}

static void q6_k(const float *x, const float *w, void *out) {
    sac_block_q6_k b;
    float scale[16], largest = 0;
    uint8_t q[256];
    for (int g = 0; g < 16; g++) {
        scale[g] = sac_weighted_signed(x + 16 * g, w + 16 * g, 16, 32);
        if (fabsf(scale[g]) > fabsf(largest)) largest = scale[g];
    }
    b.d = sac_f32_to_f16(largest / -128);
    const float d = sac_f16_to_f32(b.d);
    for (int g = 0; g < 16; g++) {
        b.scales[g] = (int8_t)choose_multiple(x + 16 * g, w + 16 * g, d, scale[g]);
        for (int i = 16 * g; i < 16 * g + 16; i++)
            q[i] = (uint8_t)(sac_weighted_code(x[i], d * (float)b.scales[g], 0, -32, 31) + 32);
    }
    sac_pack_q6_k(q, &b);
    memcpy(out, &b, sizeof b);
}

static const round_fn blocks[SAC_N_DTYPES] = {
    [SAC_DTYPE_Q4_0] = q4_0, [SAC_DTYPE_Q4_1] = q4_1, [SAC_DTYPE_Q5_0] = q5_0, [SAC_DTYPE_Q5_1] = q5_1,
    [SAC_DTYPE_Q4_K] = q4_k, [SAC_DTYPE_Q5_K] = q5_k, [SAC_DTYPE_Q6_K] = q6_k,
};

bool sac_can_weigh(sac_dtype t) {
    return blocks[t] != NULL;
}

void sac_round_row_weighted(sac_dtype t, const float *x, const float *importance, void *out, int64_t n) {
    const int block = (int)sac_dtype_block(t);
    float w[MOST_BLOCK];
    double mean = 0;
    for (int64_t i = 0; i < n; i++) mean += (double)importance[i] / (double)n;
    if (!blocks[t] || !(mean > 0) || !isfinite((float)mean)) {
        sac_round_row(t, x, out, n);
        return;
    }
    for (int64_t at = 0; at < n; at += block) {
        for (int i = 0; i < block; i++) w[i] = (float)((double)importance[at + i] / mean) + DAMPING;
        blocks[t](x + at, w, (uint8_t *)out + sac_dtype_row_bytes(t, at));
    }
}
