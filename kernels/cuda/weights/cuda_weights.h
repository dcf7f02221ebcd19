/* cuda_weights.h - which weights a GPU's products take, with which type of activations: a line a format, and a
 * file of its name that knows. Plain C, in builds without CUDA too: a plan for a GPU may be asked for, and refused,
 * on any machine. */
#ifndef SAC_CUDA_WEIGHTS_H
#define SAC_CUDA_WEIGHTS_H

#include "weight.h"

#include <stdbool.h>

/* Those that a GPU holds as code_layout.h says. */
#define SAC_CUDA_CODED(X)                                                                                    \
    X(AWQ, awq)                                                                                              \
    X(GPTQ, gptq)                                                                                            \
    X(PACKED, packed)                                                                                        \
    X(FP8, fp8)                                                                                              \
    X(INT8, int8)                                                                                            \
    X(NF4, nf4)                                                                                              \
    X(FP4, fp4)                                                                                              \
    X(HQQ, hqq)

#define SAC_CUDA_WEIGHTS(X)                                                                                  \
    X(FLOATS, floats)                                                                                        \
    SAC_BLOCK_FORMATS(X)                                                                                     \
    SAC_CUDA_CODED(X)

#define X(constant, name) bool sac_cuda_takes_##name(const sac_weight *w, sac_dtype activations);
SAC_CUDA_WEIGHTS(X)
#undef X

bool sac_cuda_takes_weight(const sac_weight *w, sac_dtype activations);

#endif
