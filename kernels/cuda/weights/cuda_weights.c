#include "cuda_weights.h"

bool sac_cuda_takes_weight(const sac_weight *w, sac_dtype activations) {
    switch (w->format) {
#define X(constant, name)                                                                                    \
    case SAC_WEIGHT_##constant: return sac_cuda_takes_##name(w, activations);
        SAC_CUDA_WEIGHTS(X)
#undef X
    default: return false;
    }
}
