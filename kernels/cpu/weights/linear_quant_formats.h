/* linear_quant_formats.h - the formats of blocks that linear_quant multiplies with: a line each. How a block is
 * unpacked is in <name>_lanes.h, which linear_quant_weights.h brings into the template. */
#ifndef SAC_LINEAR_QUANT_FORMATS_H
#define SAC_LINEAR_QUANT_FORMATS_H

/* Constant, name, bytes that a row's record has beside its rounded elements and their scale
 * (linear_quant_job.h). */
#define SAC_LQ_FORMATS(X)                                                                                    \
    X(Q8_0, q8_0, 4)                                                                                         \
    X(Q4_0, q4_0, 4)                                                                                         \
    X(Q4_1, q4_1, 4)                                                                                         \
    X(Q4_K, q4_k, 16)                                                                                        \
    X(Q6_K, q6_k, 64)

#endif
