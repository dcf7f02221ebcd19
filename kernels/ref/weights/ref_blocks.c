#include "ref_blocks.h"

#include <math.h>

void sac_ref_row_32(const void *row, size_t block_bytes, int64_t n, float *y, sac_take_apart_32 take_apart) {
    const uint8_t *at = row;
    for (int64_t i = 0; i < n / 32; i++, at += block_bytes, y += 32) {
        sac_ref_block32 b;
        take_apart(at, &b);
        for (int j = 0; j < 32; j++) y[j] = b.has_minimum ? b.d * (float)b.q[j] + b.m : b.d * (float)b.q[j];
    }
}

void sac_ref_row_256(const void *row, size_t block_bytes, int64_t n, float *y,
                     sac_take_apart_256 take_apart) {
    const uint8_t *at = row;
    for (int64_t i = 0; i < n / 256; i++, at += block_bytes, y += 256) {
        sac_ref_block256 b;
        take_apart(at, &b);
        for (int j = 0; j < 256; j++) {
            int u = j / b.unit;
            y[j] = b.d * (float)b.scale[u] * (float)b.q[j];
            if (b.has_minima) y[j] -= b.dmin * (float)b.min[u];
        }
    }
}

static int dot_of(const int8_t *q, const int8_t *x, int n) {
    int sum = 0;
    for (int j = 0; j < n; j++) sum += q[j] * x[j];
    return sum;
}

static float dot_q8_0(const uint8_t *row, size_t block_bytes, const sac_xblock_q8_0 *x, int64_t n,
                      sac_take_apart_32 take_apart) {
    float sum = 0;
    for (int64_t i = 0; i < n / 32; i++) {
        sac_ref_block32 b;
        take_apart(row + (size_t)i * block_bytes, &b);
        sum = fmaf(b.d * (float)dot_of(b.q, x[i].q, 32), sac_f16_to_f32(x[i].d), sum);
    }
    return sum;
}

/* Two sums, joined at the end: a fast kernel takes the minima in a pass of their own. */
static float dot_q8_1(const uint8_t *row, size_t block_bytes, const sac_xblock_q8_1 *x, int64_t n,
                      sac_take_apart_32 take_apart) {
    float sum = 0, minima = 0;
    for (int64_t i = 0; i < n / 32; i++) {
        sac_ref_block32 b;
        take_apart(row + (size_t)i * block_bytes, &b);
        sum = fmaf(b.d * (float)dot_of(b.q, x[i].q, 32), sac_f16_to_f32(x[i].d), sum);
        minima = fmaf(b.m, sac_f16_to_f32(x[i].s), minima);
    }
    return sum + minima;
}

float sac_ref_dot_32(const void *row, size_t block_bytes, const void *xq, int64_t n,
                     sac_take_apart_32 take_apart) {
    sac_ref_block32 first;
    if (n == 0) return 0;
    take_apart(row, &first);
    return first.has_minimum ? dot_q8_1(row, block_bytes, xq, n, take_apart)
                             : dot_q8_0(row, block_bytes, xq, n, take_apart);
}

float sac_ref_dot_256(const void *row, size_t block_bytes, const void *xq, int64_t n,
                      sac_take_apart_256 take_apart) {
    const uint8_t *at = row;
    const sac_xblock_q8_k *x = xq;
    float sum = 0;
    for (int64_t i = 0; i < n / 256; i++, at += block_bytes, x++) {
        sac_ref_block256 b;
        take_apart(at, &b);
        float scaled = 0;
        int minima = 0;
        for (int u = 0; u < 256 / b.unit; u++) {
            int first = u * b.unit;
            scaled = fmaf((float)dot_of(b.q + first, x->q + first, b.unit), (float)b.scale[u], scaled);
            for (int s = first / 16; s < (first + b.unit) / 16; s++) minima += b.min[u] * x->sum[s];
        }
        float whole = b.has_minima ? fmaf(b.d, scaled, -(b.dmin * (float)minima)) : b.d * scaled;
        sum = fmaf(whole, x->d, sum);
    }
    return sum;
}
