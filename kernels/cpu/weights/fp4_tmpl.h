/* fp4_tmpl.h - floats of 4 bits (ref/weights/fp4_ref.c) for rows_tmpl.h. */
#include "packed_simd.h"

#include "fp4.h"
#include "ref/weights/fp4_levels.h"

/* The first of two elements has the low bits of their byte. */
SAC_INLINE vf levels_of_word(vi words) {
    return levels_of_nibbles(words, shifts(0, 4, 8, 12, 16, 20, 24, 28), sac_fp4_levels);
}

#include "nibble_rows_tmpl.h"

sac_status SAC_ISA(sac_linear_fp4)(const sac_stream *s, const sac_linear_args *a) {
    return rows_linear(s, a);
}
