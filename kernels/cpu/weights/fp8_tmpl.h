/* fp8_tmpl.h - floats of 8 bits (ref/weights/fp8_ref.c) for rows_tmpl.h. */
#include "packed_simd.h"

#include "fp8.h"

SAC_INLINE const uint8_t *rows_at(const sac_weight *w, int64_t j) {
    return (const uint8_t *)w->tensor.data + j * w->tensor.dim[1];
}

SAC_INLINE vf rows_load(const uint8_t *row, int64_t p) {
    return e4m3_to_float(row + p);
}

SAC_INLINE vf rows_load_part(const uint8_t *row, int64_t p, int64_t n) {
    uint8_t part[VF] = {0};
    memcpy(part, row + p, (size_t)n);
    return e4m3_to_float(part);
}

SAC_INLINE float rows_zero(const sac_weight *w, int64_t j, int64_t g) {
    (void)w, (void)j, (void)g;
    return 0;
}

#include "rows_tmpl.h"

sac_status SAC_ISA(sac_linear_fp8)(const sac_stream *s, const sac_linear_args *a) {
    return rows_linear(s, a);
}
