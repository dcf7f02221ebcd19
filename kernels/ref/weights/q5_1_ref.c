/* GGUF's q5_1: 32 elements of 5 bits with a scale and a minimum. */
#include "nibbles.h"
#include "ref_blocks.h"

/* w = d q + m, the fifth bits apart */
static void take_apart(const void *block, sac_ref_block32 *b) {
    const sac_block_q5_1 *w = block;
    *b = (sac_ref_block32){.d = sac_f16_to_f32(w->d), .m = sac_f16_to_f32(w->m), .has_minimum = true};
    sac_unpack_nibbles(w->q, 16, b->q);
    sac_add_bits(w->high, 32, 16, b->q);
}

SAC_REF_BLOCKS(q5_1, 32, q8_1)
