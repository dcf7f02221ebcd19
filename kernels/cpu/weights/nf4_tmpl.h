/* nf4_tmpl.h - 4-bit normal floats (ref/weights/nf4_ref.c) for rows_tmpl.h. */
#include "packed_simd.h"

#include "nf4.h"
#include "ref/weights/nf4_levels.h"

/* The first of two elements has the high bits of their byte. */
SAC_INLINE vf levels_of_word(vi words) {
    return levels_of_nibbles(words, shifts(4, 0, 12, 8, 20, 16, 28, 24), sac_nf4_levels);
}

#include "nibble_rows_tmpl.h"

sac_status SAC_ISA(sac_linear_nf4)(const sac_stream *s, const sac_linear_args *a) {
    return rows_linear(s, a);
}
