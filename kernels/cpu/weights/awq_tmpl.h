/* awq_tmpl.h - AWQ's packing (ref/weights/awq_ref.c) for columns_tmpl.h. */
#include "packed_simd.h"

#include "awq.h"

/* A word has one input of eight outputs. */
enum { COLUMNS_STEP = 1, COLUMNS_ORDER = 0 };

SAC_INLINE vi columns_load(const sac_weight *w, int64_t step, int64_t j) {
    return words_of_eight((const uint8_t *)w->tensor.data + (step * w->tensor.dim[0] + j) / 2);
}

SAC_INLINE vf columns_values(vi words, int input) {
    (void)input;
    return nibbles_to_float(words, shifts(0, 16, 4, 20, 8, 24, 12, 28));
}

SAC_INLINE vf columns_zeros(const sac_weight *w, int64_t g, int64_t j) {
    const uint8_t *at = (const uint8_t *)w->zeros.data + (g * w->tensor.dim[0] + j) / 2;
    return nibbles_to_float(words_of_eight(at), shifts(0, 16, 4, 20, 8, 24, 12, 28));
}

#include "columns_tmpl.h"

sac_status SAC_ISA(sac_linear_awq)(const sac_stream *s, const sac_linear_args *a) {
    return columns_linear(s, a);
}
