/* GGUF's iq4_xs: 256 elements of 4 bits, places in iq4_nl's table, a scale of 6 bits for each 32, and a scale of
 * these. */
#include "code_tables.h"
#include "nibbles.h"
#include "ref_blocks.h"

/* w = d (scale - 32) table[q] */
static void take_apart(const void *block, sac_ref_block256 *b) {
    const sac_block_iq4_xs *w = block;
    *b = (sac_ref_block256){.d = sac_f16_to_f32(w->d), .unit = 32};
    for (int u = 0; u < 8; u++) {
        int low = w->scales_low[u / 2] >> (u % 2 * 4) & 15, high = w->scales_high >> (2 * u) & 3;
        b->scale[u] = (low | high << 4) - 32;
    }
    for (int u = 0; u < 8; u++) sac_unpack_nibbles(w->q + 16 * u, 16, b->q + 32 * u);
    for (int j = 0; j < 256; j++) b->q[j] = sac_iq4_values[b->q[j]];
}

SAC_REF_BLOCKS(iq4_xs, 256, q8_k)
