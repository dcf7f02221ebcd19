/* linear_quant_formats.h - the formats of blocks that linear_quant multiplies with: a line each. How a block is
 * unpacked is in <name>_lanes.h, which linear_quant_weights.h brings into the template. */
#ifndef SAC_LINEAR_QUANT_FORMATS_H
#define SAC_LINEAR_QUANT_FORMATS_H

#include "dtype.h"

#include <stdbool.h>

/* Blocks of 32 and of 256: constant, name, elements that share a scale, how far codes that are kept unsigned are above what
 * they stand for, whether there are minima. */
#define SAC_LQ_FORMATS_32(X)                                                                                 \
    X(Q8_0, q8_0, 32, SAC_LQ_EIGHT_BITS, false)                                                              \
    X(Q4_0, q4_0, 32, 8, false)                                                                              \
    X(Q4_1, q4_1, 32, 0, true)                                                                               \
    X(Q5_0, q5_0, 32, 16, false)                                                                             \
    X(Q5_1, q5_1, 32, 0, true)                                                                               \
    X(IQ4_NL, iq4_nl, 32, SAC_LQ_EIGHT_BITS, false)                                                          \
    X(MXFP4, mxfp4, 32, 12, false)
#define SAC_LQ_FORMATS_256(X)                                                                                \
    X(Q2_K, q2_k, 16, 0, true)                                                                               \
    X(Q3_K, q3_k, 16, 4, false)                                                                              \
    X(Q4_K, q4_k, 32, 0, true)                                                                               \
    X(Q5_K, q5_k, 32, 0, true)                                                                               \
    X(Q6_K, q6_k, 16, 32, false)                                                                             \
    X(IQ4_XS, iq4_xs, 32, SAC_LQ_EIGHT_BITS, false)
#define SAC_LQ_FORMATS(X)                                                                                    \
    SAC_LQ_FORMATS_32(X)                                                                                     \
    SAC_LQ_FORMATS_256(X)

enum { SAC_LQ_EIGHT_BITS = 128 }; /* which some instruction sets take as they are, with a sign */

typedef struct sac_lq_format {
    int block, unit, above;
    bool has_minima;
} sac_lq_format;

static inline __attribute__((always_inline)) sac_lq_format sac_lq_format_of(sac_dtype t) {
    switch (t) {
#define X(constant, name, unit, above, minima)                                                               \
    case SAC_DTYPE_##constant: return (sac_lq_format){32, unit, above, minima};
        SAC_LQ_FORMATS_32(X)
#undef X
#define X(constant, name, unit, above, minima)                                                               \
    case SAC_DTYPE_##constant: return (sac_lq_format){256, unit, above, minima};
        SAC_LQ_FORMATS_256(X)
#undef X
    default: return (sac_lq_format){1, 1, 0, false};
    }
}

/* Bytes that a row's record has beside its rounded elements and their scale (linear_quant_job.h). */
static inline int sac_lq_bytes_beside(sac_lq_format f) {
    return f.block == 32 ? 4 : f.block / f.unit * (f.has_minima ? 2 : 4);
}

#endif
