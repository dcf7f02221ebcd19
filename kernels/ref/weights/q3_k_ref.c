/* GGUF's q3_k: 256 elements of 3 bits, a scale of 6 bits for each 16, and a scale of these. */
#include "nibbles.h"
#include "ref_blocks.h"

/* The low four bits of scales 0-7 and 8-15 share bytes 0-7; the high two of u, u + 4, u + 8 and u + 12 byte 8 + u. */
void sac_q3_k_scales(const uint8_t packed[12], uint8_t scale[16]) {
    for (int u = 0; u < 16; u++)
        scale[u] =
            (uint8_t)((packed[u % 8] >> (u / 8 * 4) & 15) | (packed[8 + u % 4] >> (u / 4 * 2) & 3) << 4);
}

/* w = d (scale - 32) (q - 4), the third bits apart */
static void take_apart(const void *block, sac_ref_block256 *b) {
    const sac_block_q3_k *w = block;
    uint8_t scale[16];
    sac_q3_k_scales(w->scales, scale);
    *b = (sac_ref_block256){.d = sac_f16_to_f32(w->d), .unit = 16};
    for (int u = 0; u < 16; u++) b->scale[u] = scale[u] - 32;
    sac_unpack_two_bits(w->q, b->q);
    sac_add_bit_rows(w->high, 4, b->q);
    sac_add_to_all(256, -4, b->q);
}

SAC_REF_BLOCKS(q3_k, 256, q8_k)
