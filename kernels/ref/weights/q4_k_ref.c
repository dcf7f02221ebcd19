/* GGUF's q4_k: 256 elements of 4 bits, a scale and a minimum of 6 bits for each 32, and a scale for each of
 * these two. */
#include "nibbles.h"
#include "ref_blocks.h"

/* Bytes 0-3 hold scales 0-3 and bytes 4-7 minima 0-3 in their low six bits; the top two bits of each are
 * those of scale and minimum 4-7, whose low four share bytes 8-11. */
void sac_q4_k_scales(const uint8_t s[12], uint8_t scale[8], uint8_t min[8]) {
    for (int j = 0; j < 4; j++) {
        scale[j] = s[j] & 63;
        min[j] = s[j + 4] & 63;
        scale[j + 4] = (uint8_t)((s[j + 8] & 15) | (s[j] >> 6 << 4));
        min[j + 4] = (uint8_t)((s[j + 8] >> 4) | (s[j + 4] >> 6 << 4));
    }
}

/* w = d scale q - dmin min */
static void take_apart(const void *block, sac_ref_block256 *b) {
    const sac_block_q4_k *w = block;
    uint8_t scale[8], min[8];
    sac_q4_k_scales(w->scales, scale, min);
    *b = (sac_ref_block256){
        .d = sac_f16_to_f32(w->d), .dmin = sac_f16_to_f32(w->dmin), .has_minima = true, .unit = 32};
    for (int u = 0; u < 8; u++) b->scale[u] = scale[u], b->min[u] = min[u];
    for (int i = 0; i < 4; i++) sac_unpack_nibbles(w->q + 32 * i, 32, b->q + 64 * i);
}

SAC_REF_BLOCKS(q4_k, 256, q8_k)
