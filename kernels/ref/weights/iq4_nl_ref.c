/* GGUF's iq4_nl: 32 elements of 4 bits, places in a table, with a scale. */
#include "code_tables.h"
#include "nibbles.h"
#include "ref_blocks.h"

/* w = d table[q] */
static void take_apart(const void *block, sac_ref_block32 *b) {
    const sac_block_iq4_nl *w = block;
    *b = (sac_ref_block32){.d = sac_f16_to_f32(w->d)};
    sac_unpack_nibbles(w->q, 16, b->q);
    for (int j = 0; j < 32; j++) b->q[j] = sac_iq4_values[b->q[j]];
}

SAC_REF_BLOCKS(iq4_nl, 32, q8_0)
