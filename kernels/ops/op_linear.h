#ifndef SAC_OP_LINEAR_H
#define SAC_OP_LINEAR_H

#include "device.h"
#include "weight.h"

#include <stdbool.h>

typedef enum sac_activation {
    SAC_ACT_NONE,
    SAC_ACT_GELU,       /* x * Phi(x), by erf */
    SAC_ACT_GELU_TANH,  /* tanh approximation */
    SAC_ACT_QUICK_GELU, /* x * sigmoid(1.702 x): CLIP */
    SAC_ACT_SILU,       /* x * sigmoid(x) */
    SAC_ACT_SIGMOID,    /* 1 / (1 + e^-x): a gate of what attention makes */
} sac_activation;

/* On the CPU the sums of so few rows of x, and of more under `steady`, may have another order than those of more rows.
 * Within either kind a row's bits do not depend on the rows beside it. */
#define SAC_LINEAR_FEW_ROWS 8

/* y = act(x w^T + bias), or y += act(x w^T + bias) when accumulate is set (the residual of a block).
 * Any format of w (blocks and groups run along k). Variants may round x on the way in to the precision of w's own format:
 * q8_0 blocks of 32 with f16 scales for 8- and 4-bit weights, as llama.cpp does; for F32, F16 and BF16
 * weights x keeps f32 precision unless `fast` is set, which allows bf16 products with f32 sums. */
typedef struct sac_linear_args {
    sac_mat y;         /* [m][n] */
    sac_mat x;         /* [m][k] */
    sac_weight w;      /* [n][k] */
    const float *bias; /* [n] or NULL */
    sac_activation act;
    bool accumulate;
    bool fast;
    bool
        steady; /* on the CPU a row's bits are those that it has alone, at some cost in speed for many rows */
    int64_t n_unsteady; /* under `steady`, of the first so many rows: those that they have without it. More than
                           SAC_LINEAR_FEW_ROWS, or 0. Weights are read once for both kinds where a format can */
} sac_linear_args;

#endif
