/* q8_0_lanes.h - 32 elements of 8 bits behind their scale; see linear_quant_lanes.h. */
#ifndef SAC_Q8_0_LANES_H
#define SAC_Q8_0_LANES_H

#include "linear_quant_lanes.h"

enum { Q8_0_BYTES = 34 };

SAC_INLINE void q8_0_unpack(const uint8_t *p, size_t stride, bool as_signed, weights32 *w) {
    w->d = vf_f16_low(vi_load_words(p, stride));
    vi_load_rows(p + 2, stride, w->q);
    vi_load_rows(p + 18, stride, w->q + 4);
    for (int i = 0; i < 8 && !as_signed; i++) w->q[i] = vi_from_q8(w->q[i]);
}

#endif
