/* packed_tmpl.h - compressed-tensors' packed words (ref/weights/packed_ref.c) with PACKED_BITS bits, 4 or 8, for
 * rows_tmpl.h. */
#include "packed_simd.h"

#include "packed.h"
#include "ref/weights/packed_zero.h"

SAC_INLINE const uint8_t *rows_at(const sac_weight *w, int64_t j) {
    return (const uint8_t *)w->tensor.data + j * (w->tensor.dim[1] * PACKED_BITS / 8);
}

#if PACKED_BITS == 8
SAC_INLINE vf rows_load(const uint8_t *row, int64_t p) {
    return bytes_to_float(row + p);
}
#define LINEAR_PACKED sac_linear_packed_8
#else
SAC_INLINE vf rows_load(const uint8_t *row, int64_t p) {
    return nibbles_to_float(words_of_eight(row + p / 2), shifts(0, 4, 8, 12, 16, 20, 24, 28));
}
#define LINEAR_PACKED sac_linear_packed_4
#endif

SAC_INLINE vf rows_load_part(const uint8_t *row, int64_t p, int64_t n) {
    uint8_t part[VF] = {0};
    memcpy(part, row + p * PACKED_BITS / 8, (size_t)(n * PACKED_BITS / 8));
    return rows_load(part, 0);
}

SAC_INLINE float rows_zero(const sac_weight *w, int64_t j, int64_t g) {
    return (float)sac_packed_zero(w, j, g);
}

#include "rows_tmpl.h"

#define LINEAR_PACKED_AT(name) SAC_ISA(name)
sac_status LINEAR_PACKED_AT(LINEAR_PACKED)(const sac_stream *s, const sac_linear_args *a) {
    return rows_linear(s, a);
}
