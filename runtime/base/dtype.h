/* dtype.h - element types of tensors, as stored in safetensors and GGUF files, and the view of a tensor. */
#ifndef SAC_BASE_DTYPE_H
#define SAC_BASE_DTYPE_H

#include "status.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* name, elements a block, bytes a block, text. A block is the smallest unit that can be addressed; rows hold
 * whole blocks. From I8 on they are no numbers by themselves, but parts of weights (kernels/ops/weight.h), and those from
 * C4_32 on are how a GPU has weights whose scales lie apart in files (kernels/cuda/weights/code_layout.h). */
#define SAC_DTYPE_LIST(X)                                                                                    \
    X(F32, 1, 4, "f32")                                                                                      \
    X(F16, 1, 2, "f16")                                                                                      \
    X(BF16, 1, 2, "bf16")                                                                                    \
    X(Q8_0, 32, 34, "q8_0")                                                                                  \
    X(Q4_0, 32, 18, "q4_0")                                                                                  \
    X(Q4_1, 32, 20, "q4_1")                                                                                  \
    X(Q5_0, 32, 22, "q5_0")                                                                                  \
    X(Q5_1, 32, 24, "q5_1")                                                                                  \
    X(IQ4_NL, 32, 18, "iq4_nl")                                                                              \
    X(MXFP4, 32, 17, "mxfp4")                                                                                \
    X(Q2_K, 256, 84, "q2_k")                                                                                 \
    X(Q3_K, 256, 110, "q3_k")                                                                                \
    X(Q4_K, 256, 144, "q4_k")                                                                                \
    X(Q5_K, 256, 176, "q5_k")                                                                                \
    X(Q6_K, 256, 210, "q6_k")                                                                                \
    X(IQ4_XS, 256, 136, "iq4_xs")                                                                            \
    X(I8, 1, 1, "i8")                                                                                        \
    X(AWQ, 2, 1, "awq")                                                                                      \
    X(GPTQ_4, 2, 1, "gptq_4")                                                                                \
    X(GPTQ_8, 1, 1, "gptq_8")                                                                                \
    X(PACKED_4, 2, 1, "packed_4")                                                                            \
    X(PACKED_8, 1, 1, "packed_8")                                                                            \
    X(FP8, 1, 1, "fp8")                                                                                      \
    X(NF4, 2, 1, "nf4")                                                                                      \
    X(FP4, 2, 1, "fp4")                                                                                      \
    X(HQQ_4, 2, 1, "hqq_4")                                                                                  \
    X(I32, 1, 4, "i32")                                                                                      \
    X(C4_32, 32, 20, "c4_32")                                                                                \
    X(C4_64, 64, 36, "c4_64")                                                                                \
    X(C4_128, 128, 68, "c4_128")                                                                             \
    X(C8_32, 32, 36, "c8_32")                                                                                \
    X(C8_128, 128, 132, "c8_128")                                                                            \
    X(E4M3_128, 128, 132, "e4m3_128")                                                                        \
    X(NF4_32, 32, 20, "nf4_32")                                                                              \
    X(NF4_64, 64, 36, "nf4_64")                                                                              \
    X(E2M1_16, 16, 12, "e2m1_16")                                                                            \
    X(E2M1_32, 32, 20, "e2m1_32")                                                                            \
    X(E4M3_ROWS, 128, 132, "e4m3_rows")

typedef enum sac_dtype {
#define X(name, block, bytes, text) SAC_DTYPE_##name,
    SAC_DTYPE_LIST(X)
#undef X
        SAC_N_DTYPES
} sac_dtype;

const char *sac_dtype_name(sac_dtype t); /* "bf16" */
int sac_dtype_block(sac_dtype t);        /* elements a block */
int sac_dtype_block_bytes(sac_dtype t);

/* Bytes of a row of n elements; n must be a multiple of the block. */
static inline size_t sac_dtype_row_bytes(sac_dtype t, int64_t n) {
    return (size_t)(n / sac_dtype_block(t)) * (size_t)sac_dtype_block_bytes(t);
}

#define SAC_MAX_DIMS 4

/* A borrowed view: whoever made the bytes owns them. Row-major, the last dimension contiguous. */
typedef struct sac_tensor {
    const void *data; /* NULL = absent */
    sac_dtype dtype;
    int n_dims;
    int64_t dim[SAC_MAX_DIMS]; /* outermost first; a linear weight is [out][in] */
} sac_tensor;

/* bf16 is the upper half of an f32; to f32 is exact, from f32 rounds to nearest even (NaN stays NaN). */
static inline float sac_bf16_to_f32(uint16_t h) {
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline uint16_t sac_f32_to_bf16(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

/* IEEE half. */
float sac_f16_to_f32(uint16_t h);
uint16_t sac_f32_to_f16(float f);

#endif
