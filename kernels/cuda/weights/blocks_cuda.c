#include "block_layout.h"
#include "cuda_weights.h"

/* Products unpack codes to activations of 16 bits, which hold them exactly (block_weights.cuh). */
static bool takes_blocks(const sac_weight *w, sac_dtype activations) {
    return (activations == SAC_DTYPE_F16 || activations == SAC_DTYPE_BF16) &&
           sac_block_layout_has(w->tensor.dtype, w->tensor.dim[1]);
}

#define X(constant, name)                                                                                    \
    bool sac_cuda_takes_##name(const sac_weight *w, sac_dtype activations) {                                 \
        return takes_blocks(w, activations);                                                                 \
    }
SAC_BLOCK_FORMATS(X)
#undef X
