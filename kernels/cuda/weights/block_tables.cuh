/* block_tables.cuh - the tables of formats whose codes are places in one, as look_up of block_weights.cuh reads them. */
#ifndef SAC_KERNELS_BLOCK_TABLES_CUH
#define SAC_KERNELS_BLOCK_TABLES_CUH

#include "ref/weights/code_tables.h"
#include "ref/weights/nf4_levels.h"

#include <stdint.h>

namespace sac::weights {

constexpr uint32_t four_bytes(const int8_t *v) {
    return (uint32_t)(uint8_t)v[0] | (uint32_t)(uint8_t)v[1] << 8 | (uint32_t)(uint8_t)v[2] << 16 |
           (uint32_t)(uint8_t)v[3] << 24;
}
struct iq4_table {
    static constexpr uint32_t word(int i) {
        const int8_t v[16] = {SAC_IQ4_VALUES};
        return four_bytes(v + 4 * i);
    }
};
struct mxfp4_table {
    static constexpr uint32_t word(int i) {
        const int8_t v[16] = {SAC_MXFP4_VALUES};
        return four_bytes(v + 4 * i);
    }
};

/* A number from 2^-14 to 1, or 0, to the nearest of 16 bits with so many of a mantissa. */
template <int MANTISSA, int BIAS> constexpr uint32_t bits_of(float v) {
    if (v == 0) return 0;
    float a = v < 0 ? -v : v;
    uint32_t exponent = BIAS;
    while (a < 1) a *= 2, exponent--;
    return (v < 0 ? 0x8000u : 0u) +
           ((exponent << MANTISSA) + (uint32_t)((a - 1) * (float)(1 << MANTISSA) + 0.5f));
}
/* NF4's levels in 16 bits: of each the low bytes, or the high ones. */
template <int MANTISSA, int BIAS, bool HIGH_BYTES> struct nf4_table {
    static constexpr uint32_t word(int i) {
        const float v[16] = {SAC_NF4_LEVELS};
        uint32_t w = 0;
        for (int k = 0; k < 4; k++)
            w |= (bits_of<MANTISSA, BIAS>(v[4 * i + k]) >> (HIGH_BYTES ? 8 : 0) & 0xffu) << (8 * k);
        return w;
    }
};
/* The same words again, as they were worked out apart. */
static_assert(nf4_table<7, 127, false>::word(0) == 0xca063280u &&
                  nf4_table<7, 127, true>::word(3) == 0x3f3f3f3eu,
              "");
static_assert(nf4_table<10, 15, false>::word(2) == 0x68e02618u &&
                  nf4_table<10, 15, true>::word(0) == 0xb6b8b9bcu,
              "");

} // namespace sac::weights

#endif
