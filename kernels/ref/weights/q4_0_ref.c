/* GGUF's q4_0: 32 elements of 4 bits with a scale. */
#include "nibbles.h"
#include "ref_blocks.h"

/* w = d (q - 8) */
static void take_apart(const void *block, sac_ref_block32 *b) {
    const sac_block_q4_0 *w = block;
    *b = (sac_ref_block32){.d = sac_f16_to_f32(w->d)};
    sac_unpack_nibbles(w->q, 16, b->q);
    sac_add_to_all(32, -8, b->q);
}

SAC_REF_BLOCKS(q4_0, 32, q8_0)
