/* GGUF's q2_k: 256 elements of 2 bits, a scale and a minimum of 4 bits for each 16, and a scale for each of these two. */
#include "nibbles.h"
#include "ref_blocks.h"

/* w = d scale q - dmin min */
static void take_apart(const void *block, sac_ref_block256 *b) {
    const sac_block_q2_k *w = block;
    *b = (sac_ref_block256){
        .d = sac_f16_to_f32(w->d), .dmin = sac_f16_to_f32(w->dmin), .has_minima = true, .unit = 16};
    for (int u = 0; u < 16; u++) b->scale[u] = w->scales[u] & 15, b->min[u] = w->scales[u] >> 4;
    sac_unpack_two_bits(w->q, b->q);
}

SAC_REF_BLOCKS(q2_k, 256, q8_k)
