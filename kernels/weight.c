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

static void cut(sac_tensor *part, int64_t first, int64_t n) {
    part->data = (const uint8_t *)part->data + (size_t)first * sac_dtype_row_bytes(part->dtype, part->dim[1]);
    part->dim[0] = n;
}

bool sac_weight_rows(sac_weight *w, int64_t first, int64_t n) {
    const bool is_apart = w->format == SAC_WEIGHT_INT8 || w->format == SAC_WEIGHT_FP8 || w->format == SAC_WEIGHT_PACKED;
    const int64_t each = w->group_rows ? w->group_rows : 1;
    if (w->scales.data && (!is_apart || first % each)) return false;
    if (w->order.data || (w->zeros.data && w->format != SAC_WEIGHT_INT8)) return false;
    cut(&w->tensor, first, n);
    if (w->scales.data && w->scales.dim[0] > 1) {
        cut(&w->scales, first / each, (n + each - 1) / each);
        if (w->zeros.data) cut(&w->zeros, first / each, (n + each - 1) / each);
    }
    return true;
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
