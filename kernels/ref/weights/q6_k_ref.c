/* GGUF's q6_k: 256 elements of 6 bits, a scale of 8 bits for each 16, and a scale of these. */
#include "nibbles.h"
#include "ref_blocks.h"

/* w = d scale (q - 32), the upper two bits apart */
static void take_apart(const void *block, sac_ref_block256 *b) {
    const sac_block_q6_k *w = block;
    *b = (sac_ref_block256){.d = sac_f16_to_f32(w->d), .unit = 16};
    for (int u = 0; u < 16; u++) b->scale[u] = w->scales[u];
    int8_t high[256];
    sac_unpack_two_bits(w->high, high);
    for (int half = 0; half < 2; half++) sac_unpack_nibbles(w->low + 64 * half, 64, b->q + 128 * half);
    for (int j = 0; j < 256; j++) b->q[j] = (int8_t)(b->q[j] + 16 * high[j] - 32);
}

SAC_REF_BLOCKS(q6_k, 256, q8_k)
