/* iq4_nl_lanes.h - 32 places in a table behind their scale; see linear_quant_lanes.h. */
#ifndef SAC_IQ4_NL_LANES_H
#define SAC_IQ4_NL_LANES_H

#include "linear_quant_lanes.h"
#include "ref/weights/code_tables.h"

enum { IQ4_NL_BYTES = 18 };

SAC_INLINE void iq4_nl_unpack(const uint8_t *p, size_t stride, bool as_signed, weights32 *w) {
    w->d = vf_f16_low(vi_load_words(p, stride));
    unpack_places(p + 2, stride, table_of(sac_iq4_values, as_signed, SAC_LQ_EIGHT_BITS), w->q);
}

#endif
