/* weight.h - a matrix of the model, as it is stored: what linear, embed and their like multiply with or read.
 *
 * A weight is one tensor of numbers, or that and what they are scaled and shifted by. How the value of an
 * element comes out of these parts is its format. A format is a line in SAC_WEIGHT_FORMATS and, under its name,
 *
 *   kernels/ref/weights/    what the numbers mean, exactly
 *   kernels/cpu/weights/    the product with rows of x on processors
 *   kernels/cuda/weights/   which types a GPU's products take with it, and how they read it (cuda_weights.h
 *                           lists the formats that a GPU takes)
 *   models/weights/         by what it is known in a checkpoint (weight_reader.h)
 *
 * The type of activations is no part of it: rows of x have a type of their own. */
#ifndef SAC_OPS_WEIGHT_H
#define SAC_OPS_WEIGHT_H

#include "dtype.h"

/* Constant, name. GGUF's blocks carry their scales within; each is an element type of the same name too. */
#define SAC_BLOCK_FORMATS(X)                                                                                 \
    X(Q8_0, q8_0)                                                                                            \
    X(Q4_0, q4_0)                                                                                            \
    X(Q4_1, q4_1)                                                                                            \
    X(Q5_0, q5_0)                                                                                            \
    X(Q5_1, q5_1)                                                                                            \
    X(IQ4_NL, iq4_nl)                                                                                        \
    X(MXFP4, mxfp4)                                                                                          \
    X(Q2_K, q2_k)                                                                                            \
    X(Q3_K, q3_k)                                                                                            \
    X(Q4_K, q4_k)                                                                                            \
    X(Q5_K, q5_k)                                                                                            \
    X(Q6_K, q6_k)                                                                                            \
    X(IQ4_XS, iq4_xs)

/* The first holds F32, F16 and BF16, as the tensor's type says. */
#define SAC_WEIGHT_FORMATS(X)                                                                                \
    X(FLOATS, floats)                                                                                        \
    SAC_BLOCK_FORMATS(X)                                                                                     \
    X(INT8, int8)                                                                                            \
    X(AWQ, awq)                                                                                              \
    X(GPTQ, gptq)                                                                                            \
    X(PACKED, packed)                                                                                        \
    X(FP8, fp8)                                                                                              \
    X(NF4, nf4)                                                                                              \
    X(FP4, fp4)                                                                                              \
    X(HQQ, hqq)

typedef enum sac_weight_format {
#define X(constant, name) SAC_WEIGHT_##constant,
    SAC_WEIGHT_FORMATS(X)
#undef X
        SAC_N_WEIGHT_FORMATS
} sac_weight_format;

/* How rows of x are rounded before they meet the weights, where a checkpoint asks for it: to scale times the nearest
 * number of the type, the scale being the largest magnitude over the type's, or x_scale, whatever is in x. */
typedef enum sac_x_rounding {
    SAC_X_EXACT,
    SAC_X_FP8_ROWS,   /* e4m3, a scale a row */
    SAC_X_FP8_GROUPS, /* e4m3, a scale for each `group` elements */
    SAC_X_INT8_ROWS,  /* -128 to 127, a scale a row */
    SAC_X_FP8_STATIC, /* as those, what is larger being the largest number of the type */
    SAC_X_INT8_STATIC,
} sac_x_rounding;

/* An [n][k] matrix, n outputs of k inputs. Each part has the shape that it is stored in, but the numbers have the
 * matrix's own, [n][k], also where they are packed in another order; what a format has no use for has no data.
 * Borrowed from the model. */
typedef struct sac_weight {
    sac_tensor tensor; /* the numbers */
    sac_tensor scales;
    sac_tensor zeros; /* what stands for 0 */
    sac_tensor
        order;     /* i32 [1][k]: the group of each element of a row, where groups are not stretches of it */
    int64_t group; /* elements of a row that share a scale and a zero; 0: there are none apart */
    int64_t
        group_rows; /* rows that share scales; 0: each has its own, or all those of the only row of scales */
    int zero_add;   /* to each zero, within its bits */
    sac_x_rounding x_rounding;
    sac_weight_format format;
    float x_scale; /* of SAC_X_FP8_STATIC and SAC_X_INT8_STATIC, above 0 */
} sac_weight;

/* A weight that is all in one tensor, of a floating type or of blocks. */
sac_weight sac_weight_of(sac_tensor t);

/* What people call it: "bf16", "q4_k". */
const char *sac_weight_name(const sac_weight *w);

/* Bytes of a part, 0 without data. */
static inline size_t sac_weight_part_bytes(const sac_tensor *part) {
    return part->data ? (size_t)part->dim[0] * sac_dtype_row_bytes(part->dtype, part->dim[1]) : 0;
}

#endif
