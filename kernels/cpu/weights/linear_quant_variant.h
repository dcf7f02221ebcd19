/* linear_quant_variant.h - the copies of linear_quant_tmpl.h for each weight format, joined to `variant`.
 * Included last, once, with PANELS and AS_SIGNED defined. */
#include "linear_quant_formats.h"

#define X(constant, name, unit, above, minima)                                                               \
    SAC_LQ_MULTIPLY(multiply_##name, SAC_DTYPE_##constant, AS_SIGNED, PANELS)
SAC_LQ_FORMATS(X)
#undef X

static void multiply(const sac_lq_job *j, int64_t first, int64_t last, int64_t first_panel,
                     int64_t last_panel, void *scratch) {
    switch (j->a->w.tensor.dtype) {
#define X(constant, name, unit, above, minima)                                                               \
    case SAC_DTYPE_##constant: multiply_##name(j, first, last, first_panel, last_panel, scratch); break;
        SAC_LQ_FORMATS(X)
#undef X
    default: break;
    }
}

static const sac_lq_variant variant = {VF, quantize_panel, multiply};
