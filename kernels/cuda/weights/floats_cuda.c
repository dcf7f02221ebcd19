#include "cuda_weights.h"

/* The fast products read weights and x as numbers of one type (half_weights.cuh, cuBLASLt). */
bool sac_cuda_takes_floats(const sac_weight *w, sac_dtype activations) {
    return w->tensor.dtype == activations;
}
