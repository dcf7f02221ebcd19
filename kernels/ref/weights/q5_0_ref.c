/* GGUF's q5_0: 32 elements of 5 bits with a scale. */
#include "nibbles.h"
#include "ref_blocks.h"

/* w = d (q - 16), the fifth bits apart */
static void take_apart(const void *block, sac_ref_block32 *b) {
    const sac_block_q5_0 *w = block;
    *b = (sac_ref_block32){.d = sac_f16_to_f32(w->d)};
    sac_unpack_nibbles(w->q, 16, b->q);
    sac_add_bits(w->high, 32, 16, b->q);
    sac_add_to_all(32, -16, b->q);
}

SAC_REF_BLOCKS(q5_0, 32, q8_0)
