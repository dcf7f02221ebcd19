#include "rounding.h"

#include <assert.h>

static void round_f32(const float *x, void *out, int64_t n) {
    memcpy(out, x, (size_t)n * sizeof *x);
}

static void round_f16(const float *x, void *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t h = sac_f32_to_f16(x[i]);
        memcpy((uint8_t *)out + 2 * i, &h, 2);
    }
}

static void round_bf16(const float *x, void *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t h = sac_f32_to_bf16(x[i]);
        memcpy((uint8_t *)out + 2 * i, &h, 2);
    }
}

static void (*const rows[SAC_N_DTYPES])(const float *x, void *out, int64_t n) = {
    [SAC_DTYPE_F32] = round_f32,
    [SAC_DTYPE_F16] = round_f16,
    [SAC_DTYPE_BF16] = round_bf16,
#define X(constant, name) [SAC_DTYPE_##constant] = sac_round_##name,
    SAC_ROUNDINGS(X)
#undef X
};

bool sac_can_round(sac_dtype t) {
    return rows[t] != NULL;
}

void sac_round_row(sac_dtype t, const float *x, void *out, int64_t n) {
    assert(rows[t] && n % sac_dtype_block(t) == 0);
    rows[t](x, out, n);
}
