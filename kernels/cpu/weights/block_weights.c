/* block_weights.c - GGUF's formats: their products are one template, with a file <name>_lanes.h for each. */
#include "cpu_weights.h"
#include "linear_quant_formats.h"

static size_t scratch_bytes(unsigned cpu_flags, int64_t m, int64_t k) {
    (void)cpu_flags;
    return sac_linear_quant_scratch_bytes(m, k);
}

#define X(constant, name, unit, above, minima)                                                               \
    const sac_cpu_weight sac_cpu_weight_##name = {sac_linear_quant_find, scratch_bytes};
SAC_LQ_FORMATS(X)
#undef X
