/* 32 elements, codes 0 to 15 around 8. */
#include "legacy_blocks.h"
#include "rounding.h"

void sac_round_q4_0(const float *x, void *out, int64_t n) {
    uint8_t *to = out, q[32];
    for (int64_t at = 0; at < n; at += 32, x += 32, to += sizeof(sac_block_q4_0)) {
        sac_block_q4_0 b;
        b.d = sac_block_around(x, 8, q);
        sac_block_nibbles(q, b.q);
        memcpy(to, &b, sizeof b);
    }
}
