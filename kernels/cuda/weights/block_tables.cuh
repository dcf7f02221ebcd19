/* block_tables.cuh - the tables of formats whose codes are places in one, as look_up of block_weights.cuh reads them. */
#ifndef SAC_KERNELS_BLOCK_TABLES_CUH
#define SAC_KERNELS_BLOCK_TABLES_CUH

#include "ref/weights/code_tables.h"

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

} // namespace sac::weights

#endif
