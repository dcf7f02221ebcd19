#include "code_layout.h"
#include "cuda_weights.h"

/* Products unpack codes to activations of 16 bits, which hold them exactly (code_formats.cuh). */
static bool takes_codes(const sac_weight *w, sac_dtype activations) {
    return (activations == SAC_DTYPE_F16 || activations == SAC_DTYPE_BF16) &&
           sac_code_layout_type(w, false) != SAC_N_DTYPES;
}

#define X(constant, name)                                                                                    \
    bool sac_cuda_takes_##name(const sac_weight *w, sac_dtype activations) {                                 \
        return takes_codes(w, activations);                                                                  \
    }
SAC_CUDA_CODED(X)
#undef X
