/* GGUF's q8_0: 32 elements of 8 bits with a scale. */
#include "ref_blocks.h"

/* w = d q */
static void take_apart(const void *block, sac_ref_block32 *b) {
    const sac_block_q8_0 *w = block;
    *b = (sac_ref_block32){.d = sac_f16_to_f32(w->d)};
    memcpy(b->q, w->q, sizeof b->q);
}

SAC_REF_BLOCKS(q8_0, 32, q8_0)
