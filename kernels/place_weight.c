#include "place_weight.h"

static sac_status place_part(sac_placer *p, sac_tensor *part) {
    return sac_place_bytes(p, &part->data, sac_weight_part_bytes(part));
}

sac_status sac_place_weight(sac_placer *p, sac_weight *w) {
    if (!w->tensor.data) return SAC_OK;
    if (w->tensor.dtype != p->dtype)
        return sac_fail(
            p->err, SAC_UNSUPPORTED,
            "weights in %s and %s: on a device all must be of one type, f32, f16 or bf16; run on the CPU",
            sac_dtype_name(p->dtype), sac_weight_name(w));
    SAC_TRY(place_part(p, &w->tensor));
    SAC_TRY(place_part(p, &w->scales));
    return place_part(p, &w->zeros);
}
