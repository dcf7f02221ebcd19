#include "k_search.h"

#include "dtype.h"

#include <math.h>
#include <stdbool.h>

enum { MAX_GROUP = 32, LANES = 8, N_STEPS = 20 };

typedef struct sums {
    float q, q2, qx;
} sums;

static float sum_of(const float lanes[LANES]) {
    float s = 0;
    for (int l = 0; l < LANES; l++) s += lanes[l];
    return s;
}

/* Sums over the codes that (x - low) inverse rounds to, within [least, most]. */
static sums sums_of(const float *x, int n, float inverse, float low, float least, float most) {
    float q1[LANES] = {0}, q2[LANES] = {0}, qx[LANES] = {0};
    for (int i = 0; i < n; i += LANES)
        for (int l = 0; l < LANES; l++) {
            float q = sac_nearest((x[i + l] - low) * inverse);
            q = q < least ? least : q;
            q = q > most ? most : q;
            q1[l] += q;
            q2[l] += q * q;
            qx[l] += q * x[i + l];
        }
    return (sums){sum_of(q1), sum_of(q2), sum_of(qx)};
}

static float sum(const float *x, int n) {
    float s = 0;
    for (int i = 0; i < n; i++) s += x[i];
    return s;
}

/* ---------------------------------------------------------------- scale and minimum */

/* What regression takes off the sum of squares: more is better. */
static double fit_min(const sums *s, int n, double sum_x, double *scale, double *offset) {
    const double det = n * (double)s->q2 - (double)s->q * s->q;
    *scale = *offset = 0;
    if (det <= 0) return 0;
    *scale = (n * (double)s->qx - sum_x * s->q) / det;
    *offset = (s->q2 * sum_x - s->q * (double)s->qx) / det;
    if (*offset > 0) { /* a minimum is taken away, never added */
        *offset = 0;
        *scale = s->q2 > 0 ? (double)s->qx / s->q2 : 0;
    }
    return 2 * (*scale * s->qx + *offset * sum_x) -
           (*scale * *scale * s->q2 + 2 * *scale * *offset * s->q + n * *offset * *offset);
}

void sac_search_min(const float *x, int n, int most, float *scale, float *min) {
    float low = 0, high = x[0];
    for (int i = 0; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    *scale = 0, *min = -low;
    if (!(high > low) || !isfinite((float)most / (high - low))) return;
    const double sum_x = sum(x, n);
    double best = -1, best_scale = 0, best_offset = low;
    for (int k = 0; k <= N_STEPS + 2; k++) {
        /* the last two start from the best so far */
        float inverse = ((float)most - 1 + 0.1f * (float)k) / (high - low), from = low;
        if (k > N_STEPS) {
            if (!(best_scale > 0)) break;
            inverse = (float)(1 / best_scale), from = (float)best_offset;
        }
        const sums s = sums_of(x, n, inverse, from, 0, (float)most);
        double fitted_scale, fitted_offset, taken = fit_min(&s, n, sum_x, &fitted_scale, &fitted_offset);
        if (!(fitted_scale > 0) || taken <= best) continue;
        best = taken, best_scale = fitted_scale, best_offset = fitted_offset;
    }
    if (!(best_scale > 0)) best_scale = (high - low) / (float)most, best_offset = low;
    *scale = (float)best_scale;
    *min = (float)-best_offset;
}

/* ---------------------------------------------------------------- scale alone */

float sac_search_signed(const float *x, int n, int most) {
    float largest = 0;
    for (int i = 0; i < n; i++) largest = fabsf(x[i]) > fabsf(largest) ? x[i] : largest;
    if (largest == 0 || !isfinite((float)most / largest)) return 0;
    double best = -1, best_scale = largest / (float)-most;
    for (int k = -9; k <= 11; k++) {
        const float inverse = k > 9 ? (float)(1 / best_scale) : -((float)most + 0.1f * (float)k) / largest;
        const sums s = sums_of(x, n, inverse, 0, (float)-most, (float)most - 1);
        if (!(s.q2 > 0) || !isfinite(inverse)) continue;
        const double taken = (double)s.qx * s.qx / s.q2;
        if (taken <= best) continue;
        best = taken, best_scale = (double)s.qx / s.q2;
        if (best_scale == 0) best_scale = largest / (float)-most;
    }
    return (float)best_scale;
}

/* ---------------------------------------------------------------- a block with minima */

static float error_of(const float *x, float step, float min, float most) {
    const float inverse = step > 0 ? 1 / step : 0;
    float lanes[LANES] = {0};
    for (int i = 0; i < MAX_GROUP; i += LANES)
        for (int l = 0; l < LANES; l++) {
            float q = sac_nearest((x[i + l] + min) * inverse);
            q = q < 0 ? 0 : q;
            q = q > most ? most : q;
            const float off = x[i + l] - (q * step - min);
            lanes[l] += off * off;
        }
    return sum_of(lanes);
}

static int in_6_bits(float value, float unit) {
    const float q = unit > 0 ? rintf(value / unit) : 0;
    return q > 63 ? 63 : q < 0 ? 0 : (int)q;
}

/* Of the multiples of d and dmin around what was found, those with the least error. */
static void choose_multiples(const float *x, float d, float dmin, float most, int *scale, int *min) {
    const int s0 = *scale, m0 = *min;
    float best = INFINITY;
    for (int s = s0 > 1 ? s0 - 1 : 0; s <= s0 + 1 && s <= 63; s++)
        for (int m = m0 > 1 ? m0 - 1 : 0; m <= m0 + 1 && m <= 63; m++) {
            const float error = error_of(x, d * (float)s, dmin * (float)m, most);
            if (error < best) best = error, *scale = s, *min = m;
        }
}

void sac_pack_k_scales(const int scale[8], const int min[8], uint8_t packed[12]) {
    for (int j = 0; j < 4; j++) {
        packed[j] = (uint8_t)(scale[j] | (scale[j + 4] >> 4) << 6);
        packed[j + 4] = (uint8_t)(min[j] | (min[j + 4] >> 4) << 6);
        packed[j + 8] = (uint8_t)((scale[j + 4] & 15) | (min[j + 4] & 15) << 4);
    }
}

void sac_search_k_block(const float x[256], int most, uint16_t *d, uint16_t *dmin, uint8_t packed[12],
                        uint8_t q[256]) {
    float scales[8], mins[8], largest = 0, largest_min = 0;
    int scale[8], min[8];
    for (int g = 0; g < 8; g++) {
        sac_search_min(x + 32 * g, 32, most, &scales[g], &mins[g]);
        largest = fmaxf(largest, scales[g]);
        largest_min = fmaxf(largest_min, mins[g]);
    }
    *d = sac_f32_to_f16(largest / 63);
    *dmin = sac_f32_to_f16(largest_min / 63);
    const float unit = sac_f16_to_f32(*d), unit_min = sac_f16_to_f32(*dmin);
    for (int g = 0; g < 8; g++) {
        scale[g] = in_6_bits(scales[g], unit), min[g] = in_6_bits(mins[g], unit_min);
        choose_multiples(x + 32 * g, unit, unit_min, (float)most, &scale[g], &min[g]);
        const float step = unit * (float)scale[g], low = unit_min * (float)min[g], inverse = step > 0 ? 1 / step : 0;
        for (int i = 0; i < 32; i++) {
            const float code = sac_nearest((x[32 * g + i] + low) * inverse);
            q[32 * g + i] = (uint8_t)(code < 0 ? 0 : code > (float)most ? most : (int)code);
        }
    }
    sac_pack_k_scales(scale, min, packed);
}
