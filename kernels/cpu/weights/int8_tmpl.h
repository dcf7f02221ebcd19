/* int8_tmpl.h - int8 weights with scales apart (ref/weights/int8_ref.c) for rows_tmpl.h. */
#include "cpu/simd.h"

#include "int8.h"

SAC_INLINE const uint8_t *rows_at(const sac_weight *w, int64_t j) {
    return (const uint8_t *)w->tensor.data + j * w->tensor.dim[1];
}

SAC_INLINE vf rows_load(const uint8_t *row, int64_t p) {
    return vf_load_i8((const int8_t *)row + p);
}

SAC_INLINE vf rows_load_part(const uint8_t *row, int64_t p, int64_t n) {
    return vf_load_i8_part((const int8_t *)row + p, n);
}

SAC_INLINE float rows_zero(const sac_weight *w, int64_t j, int64_t g) {
    if (!w->zeros.data) return 0;
    return (float)((const int8_t *)w->zeros.data)[(w->scales.dim[0] == 1 ? 0 : j * w->scales.dim[1]) + g];
}

#include "rows_tmpl.h"

sac_status SAC_ISA(sac_linear_int8)(const sac_stream *s, const sac_linear_args *a) {
    return rows_linear(s, a);
}
