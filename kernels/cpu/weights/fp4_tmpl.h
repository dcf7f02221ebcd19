/* fp4_tmpl.h - floats of 4 bits (ref/weights/fp4_ref.c) for rows_tmpl.h. */
#include "packed_simd.h"

#include "fp4.h"
#include "ref/weights/fp4_levels.h"

SAC_INLINE const uint8_t *rows_at(const sac_weight *w, int64_t j) {
    return (const uint8_t *)w->tensor.data + j * (w->tensor.dim[1] / 2);
}

/* The first of two elements has the low bits of their byte. */
SAC_INLINE vf rows_load(const uint8_t *row, int64_t p) {
    return levels_of_nibbles(words_of_eight(row + p / 2), shifts(0, 4, 8, 12, 16, 20, 24, 28),
                             sac_fp4_levels);
}

SAC_INLINE vf rows_load_part(const uint8_t *row, int64_t p, int64_t n) {
    uint8_t part[VF] = {0};
    memcpy(part, row + p / 2, (size_t)(n / 2));
    return rows_load(part, 0);
}

SAC_INLINE float rows_zero(const sac_weight *w, int64_t j, int64_t g) {
    (void)w, (void)j, (void)g;
    return 0;
}

#include "rows_tmpl.h"

sac_status SAC_ISA(sac_linear_fp4)(const sac_stream *s, const sac_linear_args *a) {
    return rows_linear(s, a);
}
