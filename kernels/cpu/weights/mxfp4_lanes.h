/* mxfp4_lanes.h - 32 places in a table behind their exponent; see linear_quant_lanes.h. */
#ifndef SAC_MXFP4_LANES_H
#define SAC_MXFP4_LANES_H

#include "linear_quant_lanes.h"
#include "ref/weights/code_tables.h"

enum { MXFP4_BYTES = 17 };

/* sac_mxfp4_scale: bits (e - 1) 2^23, and from 2^21 on below that; of the two the larger. */
SAC_INLINE vf mxfp4_scale(vi exponent) {
    vi least = vi_set1(1 << 23);
    vi normal = vi_add(vi_max_unsigned(vi_shift_left(exponent, 23), least), vi_set1(-(1 << 23)));
    vi subnormal = vi_shift_left(vi_add(exponent, vi_set1(1)), 21);
    return vf_from_bits(vi_max_unsigned(normal, subnormal));
}

SAC_INLINE void mxfp4_unpack(const uint8_t *p, size_t stride, bool as_signed, weights32 *w) {
    w->d = mxfp4_scale(vi_and(vi_load_words(p, stride), vi_set1(0xff)));
    unpack_places(p + 1, stride, table_of(sac_mxfp4_values, as_signed, 12), w->q);
}

#endif
