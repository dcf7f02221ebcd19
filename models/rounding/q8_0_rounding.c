/* 32 elements: d = largest magnitude / 127, the nearest multiple of it, halves away from 0. */
#include "quants.h"
#include "rounding.h"

#include <math.h>

void sac_round_q8_0(const float *x, void *out, int64_t n) {
    uint8_t *to = out;
    for (int64_t at = 0; at < n; at += 32, x += 32, to += sizeof(sac_block_q8_0)) {
        sac_block_q8_0 b;
        float most = 0;
        for (int i = 0; i < 32; i++) most = fmaxf(most, fabsf(x[i]));
        const float d = most / 127;
        float id = d == 0 ? 0 : 1 / d;
        if (!isfinite(id)) id = 0;
        b.d = sac_f32_to_f16(d);
        for (int i = 0; i < 32; i++) b.q[i] = (int8_t)roundf(x[i] * id);
        memcpy(to, &b, sizeof b);
    }
}
