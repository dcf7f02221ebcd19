/* hqq_tmpl.h - codes of 4 bits with zeros in floats (ref/weights/hqq_ref.c) for rows_tmpl.h. */
#include "packed_simd.h"

#include "hqq.h"
#include "ref/weights/parts.h"

SAC_INLINE const uint8_t *rows_at(const sac_weight *w, int64_t j) {
    return (const uint8_t *)w->tensor.data + j * (w->tensor.dim[1] / 2);
}

SAC_INLINE vf rows_load(const uint8_t *row, int64_t p) {
    return nibbles_to_float(words_of_eight(row + p / 2), shifts(0, 4, 8, 12, 16, 20, 24, 28));
}

SAC_INLINE vf rows_load_part(const uint8_t *row, int64_t p, int64_t n) {
    uint8_t part[VF] = {0};
    memcpy(part, row + p / 2, (size_t)(n / 2));
    return rows_load(part, 0);
}

SAC_INLINE float rows_zero(const sac_weight *w, int64_t j, int64_t g) {
    return sac_ref_scale(&w->zeros, j * w->zeros.dim[1] + g);
}

#include "rows_tmpl.h"

sac_status SAC_ISA(sac_linear_hqq)(const sac_stream *s, const sac_linear_args *a) {
    return rows_linear(s, a);
}
