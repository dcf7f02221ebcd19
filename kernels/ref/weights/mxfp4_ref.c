/* GGUF's mxfp4: 32 floats of 4 bits with a power of two (OCP Microscaling Formats 1.0). */
#include "code_tables.h"
#include "nibbles.h"
#include "ref_blocks.h"

/* The exponent is that of twice the scale, as the table has twice the values. Subnormal below 2. */
float sac_mxfp4_scale(uint8_t exponent) {
    uint32_t bits = exponent < 2 ? 0x00200000u << exponent : (uint32_t)(exponent - 1) << 23;
    float scale;
    memcpy(&scale, &bits, 4);
    return scale;
}

/* w = d table[q] */
static void take_apart(const void *block, sac_ref_block32 *b) {
    const sac_block_mxfp4 *w = block;
    *b = (sac_ref_block32){.d = sac_mxfp4_scale(w->exponent)};
    sac_unpack_nibbles(w->q, 16, b->q);
    for (int j = 0; j < 32; j++) b->q[j] = sac_mxfp4_values[b->q[j]];
}

SAC_REF_BLOCKS(mxfp4, 32, q8_0)
