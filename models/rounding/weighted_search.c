#include "weighted_search.h"

#include "dtype.h"
#include "k_search.h"

#include <math.h>

enum { N_STEPS = 20 };

int sac_weighted_code(float x, float step, float offset, int least, int most) {
    const float q = step != 0 ? (x - offset) / step : 0;
    if (!(q > (float)least)) return least; /* and of no number */
    return q > (float)most ? most : (int)rintf(q);
}

double sac_weighted_error(const float *x, const float *w, int n, float step, float offset, int least, int most) {
    double error = 0;
    for (int i = 0; i < n; i++) {
        const double off = (double)x[i] - ((double)step * sac_weighted_code(x[i], step, offset, least, most) + (double)offset);
        error += (double)w[i] * off * off;
    }
    return error;
}

/* ---------------------------------------------------------------- scale and offset */

typedef struct sums {
    double w, q, q2, x, qx;
} sums;

static sums sums_of(const float *x, const float *w, int n, float step, float offset, int least, int most) {
    sums s = {0};
    for (int i = 0; i < n; i++) {
        const double q = sac_weighted_code(x[i], step, offset, least, most), wi = (double)w[i];
        s.w += wi, s.q += wi * q, s.q2 += wi * q * q, s.x += wi * (double)x[i], s.qx += wi * q * (double)x[i];
    }
    return s;
}

static bool fit(const sums *s, bool any_sign, float *scale, float *offset) {
    const double det = s->w * s->q2 - s->q * s->q;
    if (!(det > 0)) return false;
    double a = (s->w * s->qx - s->x * s->q) / det, b = (s->q2 * s->x - s->q * s->qx) / det;
    if (b > 0 && !any_sign) b = 0, a = s->q2 > 0 ? s->qx / s->q2 : 0;
    *scale = (float)a, *offset = (float)b;
    return isfinite(*scale) && isfinite(*offset) && *scale > 0;
}

void sac_weighted_offset(const float *x, const float *w, int n, int most, bool any_sign, float *scale, float *offset) {
    float low = any_sign ? x[0] : 0, high = x[0];
    for (int i = 0; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    *scale = 0, *offset = low;
    if (!(high > low) || !isfinite((float)most / (high - low))) return;
    *scale = (high - low) / (float)most;
    double best = sac_weighted_error(x, w, n, *scale, *offset, 0, most);
    for (int k = 0; k <= N_STEPS + 2; k++) {
        const bool goes_on = k > N_STEPS; /* the last two start from the best so far */
        const float step = goes_on ? *scale : (high - low) / ((float)most - 1 + 0.1f * (float)k);
        const sums s = sums_of(x, w, n, step, goes_on ? *offset : low, 0, most);
        float a, b;
        if (!fit(&s, any_sign, &a, &b)) continue;
        const double error = sac_weighted_error(x, w, n, a, b, 0, most);
        if (error < best) best = error, *scale = a, *offset = b;
    }
}

/* ---------------------------------------------------------------- scale alone */

float sac_weighted_signed(const float *x, const float *w, int n, int most) {
    float largest = 0;
    for (int i = 0; i < n; i++) largest = fabsf(x[i]) > fabsf(largest) ? x[i] : largest;
    if (largest == 0 || !isfinite((float)most / largest)) return 0;
    float chosen = largest / (float)-most;
    double best = sac_weighted_error(x, w, n, chosen, 0, -most, most - 1);
    for (int k = -9; k <= 11; k++) {
        const float step = k > 9 ? chosen : -largest / ((float)most + 0.1f * (float)k);
        const sums s = sums_of(x, w, n, step, 0, -most, most - 1);
        const float a = s.q2 > 0 ? (float)(s.qx / s.q2) : 0;
        if (a == 0 || !isfinite(a)) continue;
        const double error = sac_weighted_error(x, w, n, a, 0, -most, most - 1);
        if (error < best) best = error, chosen = a;
    }
    return chosen;
}

/* ---------------------------------------------------------------- a block with minima */

static int in_6_bits(float value, float unit) {
    const float q = unit > 0 ? rintf(value / unit) : 0;
    return q > 63 ? 63 : q < 0 ? 0 : (int)q;
}

static void choose_multiples(const float *x, const float *w, float d, float dmin, int most, int *scale, int *min) {
    const int s0 = *scale, m0 = *min;
    double best = INFINITY;
    for (int s = s0 > 1 ? s0 - 1 : 0; s <= s0 + 1 && s <= 63; s++)
        for (int m = m0 > 1 ? m0 - 1 : 0; m <= m0 + 1 && m <= 63; m++) {
            const double error = sac_weighted_error(x, w, 32, d * (float)s, -dmin * (float)m, 0, most);
            if (error < best) best = error, *scale = s, *min = m;
        }
}

void sac_weighted_k_block(const float x[256], const float w[256], int most, uint16_t *d, uint16_t *dmin, uint8_t packed[12],
                          uint8_t q[256]) {
    float scales[8], mins[8], largest = 0, largest_min = 0;
    int scale[8], min[8];
    for (int g = 0; g < 8; g++) {
        sac_weighted_offset(x + 32 * g, w + 32 * g, 32, most, false, &scales[g], &mins[g]);
        mins[g] = -mins[g];
        largest = fmaxf(largest, scales[g]);
        largest_min = fmaxf(largest_min, mins[g]);
    }
    *d = sac_f32_to_f16(largest / 63);
    *dmin = sac_f32_to_f16(largest_min / 63);
    const float unit = sac_f16_to_f32(*d), unit_min = sac_f16_to_f32(*dmin);
    for (int g = 0; g < 8; g++) {
        scale[g] = in_6_bits(scales[g], unit), min[g] = in_6_bits(mins[g], unit_min);
        choose_multiples(x + 32 * g, w + 32 * g, unit, unit_min, most, &scale[g], &min[g]);
        for (int i = 32 * g; i < 32 * g + 32; i++)
            q[i] = (uint8_t)sac_weighted_code(x[i], unit * (float)scale[g], -unit_min * (float)min[g], 0, most);
    }
    sac_pack_k_scales(scale, min, packed);
}
