#include "ref_weights.h"

const sac_ref_weight *sac_ref_weight_of(const sac_weight *w) {
    static const sac_ref_weight *const all[] = {
#define X(constant, name) &sac_ref_weight_##name,
        SAC_WEIGHT_FORMATS(X)
#undef X
    };
    return all[w->format];
}
