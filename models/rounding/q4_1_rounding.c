/* 32 elements, codes 0 to 15 from the smallest to the largest. */
#include "legacy_blocks.h"
#include "rounding.h"

void sac_round_q4_1(const float *x, void *out, int64_t n) {
    uint8_t *to = out, q[32];
    for (int64_t at = 0; at < n; at += 32, x += 32, to += sizeof(sac_block_q4_1)) {
        sac_block_q4_1 b;
        sac_block_between(x, 15, &b.d, &b.m, q);
        sac_block_nibbles(q, b.q);
        memcpy(to, &b, sizeof b);
    }
}
