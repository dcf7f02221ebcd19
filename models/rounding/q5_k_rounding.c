/* As q4_k, with a fifth bit: of group g it is bit g of a byte for each place. */
#include "k_search.h"
#include "quants.h"
#include "rounding.h"

void sac_pack_q5_k(const uint8_t q[256], sac_block_q5_k *b) {
    for (int i = 0; i < 128; i++)
        b->q[i] = (uint8_t)((q[i / 32 * 64 + i % 32] & 15) | (q[i / 32 * 64 + 32 + i % 32] & 15) << 4);
    memset(b->high, 0, sizeof b->high);
    for (int i = 0; i < 256; i++) b->high[i % 32] = (uint8_t)(b->high[i % 32] | q[i] >> 4 << i / 32);
}

void sac_round_q5_k(const float *x, void *out, int64_t n) {
    uint8_t *to = out, q[256];
    for (int64_t at = 0; at < n; at += 256, x += 256, to += sizeof(sac_block_q5_k)) {
        sac_block_q5_k b;
        sac_search_k_block(x, 31, &b.d, &b.dmin, b.scales, q);
        sac_pack_q5_k(q, &b);
        memcpy(to, &b, sizeof b);
    }
}
