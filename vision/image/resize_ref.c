#include "resize_kernels.h"

static int32_t weight(const sac_resize_axis *a, size_t k) {
    return a->low ? a->high[k] * (1 << SAC_RESIZE_LOW_BITS) + a->low[k] : a->high[k];
}

static void horizontal(const sac_resize_axis *a, uint8_t *const *out, const uint8_t *const *row, int n_rows) {
    const int32_t half = 1 << (a->fraction_bits - 1);
    for (int r = 0; r < n_rows; r++) {
        for (int i = 0; i < a->n_out; i++) {
            const uint8_t *p = row[r] + (size_t)a->first[i] * 3;
            size_t k = (size_t)i * (size_t)a->n_taps_max;
            int32_t sum[3] = {half, half, half};
            for (int t = 0; t < a->taps[i]; t++) {
                int32_t w = weight(a, k + (size_t)t);
                for (int c = 0; c < 3; c++) sum[c] += p[t * 3 + c] * w;
            }
            for (int c = 0; c < 3; c++) out[r][i * 3 + c] = sac_resize_round(sum[c], a->fraction_bits);
        }
    }
}

static void vertical(const sac_resize_axis *a, int i, uint8_t *out, const uint8_t *const *row,
                     size_t n_bytes) {
    const int32_t half = 1 << (a->fraction_bits - 1);
    size_t k = (size_t)i * (size_t)a->n_taps_max;
    for (size_t b = 0; b < n_bytes; b++) {
        int32_t sum = half;
        for (int t = 0; t < a->taps[i]; t++) sum += row[t][b] * weight(a, k + (size_t)t);
        out[b] = sac_resize_round(sum, a->fraction_bits);
    }
}

const sac_resize_kernels sac_resize_ref = {"ref", horizontal, vertical, .reads_digits = false};
