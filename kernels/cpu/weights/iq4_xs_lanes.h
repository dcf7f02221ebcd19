/* iq4_xs_lanes.h - 256 places in iq4_nl's table behind a scale and 6 bits of scale for each 32; see linear_quant_lanes.h. */
#ifndef SAC_IQ4_XS_LANES_H
#define SAC_IQ4_XS_LANES_H

#include "linear_quant_lanes.h"
#include "ref/weights/code_tables.h"

enum { IQ4_XS_BYTES = 136, IQ4_XS_PART_GROUPS = 2 };

SAC_INLINE void iq4_xs_head(const uint8_t *p, size_t stride, head256 *w) {
    vi bytes[4], low4 = vi_set1(15), high2 = vi_set1(0x30);
    vi_load_rows(p, stride, bytes);
    w->d = vf_f16_low(bytes[0]);
    vi low = bytes[1], high = vi_shift_right(bytes[0], 12);
    for (int u = 0; u < 8; u++, low = vi_shift_right(low, 4), high = vi_shift_right(high, 2)) {
        vi scale = vi_or(vi_and(low, low4), vi_and(high, high2));
        w->scale[u] = vi_to_float(vi_add(scale, vi_set1(-32)));
    }
}

SAC_INLINE void iq4_xs_part(const uint8_t *p, size_t stride, int part, bool as_signed, vi *q) {
    vi table = table_of(sac_iq4_values, as_signed, SAC_LQ_EIGHT_BITS);
    unpack_places(p + 8 + 32 * part, stride, table, q);
    unpack_places(p + 24 + 32 * part, stride, table, q + 8);
}

#endif
