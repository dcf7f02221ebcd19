/* 256 elements in eight groups with a scale and a minimum; two groups share 32 bytes, low nibbles first. */
#include "k_search.h"
#include "quants.h"
#include "rounding.h"

void sac_pack_q4_k(const uint8_t q[256], sac_block_q4_k *b) {
    for (int i = 0; i < 128; i++) b->q[i] = (uint8_t)(q[i / 32 * 64 + i % 32] | q[i / 32 * 64 + 32 + i % 32] << 4);
}

void sac_round_q4_k(const float *x, void *out, int64_t n) {
    uint8_t *to = out, q[256];
    for (int64_t at = 0; at < n; at += 256, x += 256, to += sizeof(sac_block_q4_k)) {
        sac_block_q4_k b;
        sac_search_k_block(x, 15, &b.d, &b.dmin, b.scales, q);
        sac_pack_q4_k(q, &b);
        memcpy(to, &b, sizeof b);
    }
}
