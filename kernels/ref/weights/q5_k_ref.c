/* GGUF's q5_k: q4_k with a fifth bit, apart. */
#include "nibbles.h"
#include "ref_blocks.h"

/* w = d scale q - dmin min, the fifth bits apart */
static void take_apart(const void *block, sac_ref_block256 *b) {
    const sac_block_q5_k *w = block;
    uint8_t scale[8], min[8];
    sac_q4_k_scales(w->scales, scale, min);
    *b = (sac_ref_block256){
        .d = sac_f16_to_f32(w->d), .dmin = sac_f16_to_f32(w->dmin), .has_minima = true, .unit = 32};
    for (int u = 0; u < 8; u++) b->scale[u] = scale[u], b->min[u] = min[u];
    for (int i = 0; i < 4; i++) sac_unpack_nibbles(w->q + 32 * i, 32, b->q + 64 * i);
    sac_add_bit_rows(w->high, 16, b->q);
}

SAC_REF_BLOCKS(q5_k, 256, q8_k)
