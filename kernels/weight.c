#include "weight.h"

#include <assert.h>

static sac_weight_format format_of(sac_dtype t) {
    switch (t) {
    case SAC_DTYPE_F32:
    case SAC_DTYPE_F16:
    case SAC_DTYPE_BF16: return SAC_WEIGHT_FLOATS;
#define X(constant, name)                                                                                    \
    case SAC_DTYPE_##constant: return SAC_WEIGHT_##constant;
        SAC_BLOCK_FORMATS(X)
#undef X
    default: break;
    }
    assert(0 && "not a weight by itself");
    return SAC_WEIGHT_FLOATS;
}

sac_weight sac_weight_of(sac_tensor t) {
    return (sac_weight){.tensor = t, .format = format_of(t.dtype)};
}

const char *sac_weight_name(const sac_weight *w) {
    static const char *const names[] = {
#define X(constant, name) #name,
        SAC_WEIGHT_FORMATS(X)
#undef X
    };
    switch (w->format) {
    case SAC_WEIGHT_FLOATS:
    case SAC_WEIGHT_GPTQ:
    case SAC_WEIGHT_PACKED: return sac_dtype_name(w->tensor.dtype); /* these are of several types */
    default: return names[w->format];
    }
}
