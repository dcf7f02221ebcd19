/* gptq_tmpl.h - GPTQ's packing (ref/weights/gptq_ref.c) with GPTQ_BITS bits, 4 or 8, for columns_tmpl.h. */
#include "packed_simd.h"

#include "gptq.h"

/* A word has these inputs of an output. */
enum { COLUMNS_STEP = 32 / GPTQ_BITS, COLUMNS_ORDER = 1 };

SAC_INLINE vi columns_load(const sac_weight *w, int64_t step, int64_t j) {
    return vi_load((const uint8_t *)w->tensor.data + (step * w->tensor.dim[0] + j) * 4);
}

SAC_INLINE vf columns_zeros(const sac_weight *w, int64_t g, int64_t j) {
    const uint8_t *at = (const uint8_t *)w->zeros.data + (g * w->tensor.dim[0] + j) * GPTQ_BITS / 8;
    vf stored = GPTQ_BITS == 8 ? bytes_to_float(at)
                               : nibbles_to_float(words_of_eight(at), shifts(0, 4, 8, 12, 16, 20, 24, 28));
    return add_within(stored, w->zero_add, (1 << GPTQ_BITS) - 1);
}

#if GPTQ_BITS == 8
SAC_INLINE vf columns_values(vi words, int input) {
    return byte_of_words(words, input);
}
#define LINEAR_GPTQ sac_linear_gptq_8
#else
SAC_INLINE vf columns_values(vi words, int input) {
    return nibble_of_words(words, input);
}
#define LINEAR_GPTQ sac_linear_gptq_4
#endif

#include "columns_tmpl.h"

#define LINEAR_GPTQ_AT(name) SAC_ISA(name)
sac_status LINEAR_GPTQ_AT(LINEAR_GPTQ)(const sac_stream *s, const sac_linear_args *a) {
    return columns_linear(s, a);
}
