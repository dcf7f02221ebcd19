/* quants.h - rows of quantised numbers: the weight formats of GGUF and the formats that activations take to
 * meet them.
 *
 * Weights are what a file stores; layouts and formulas are the GGML project's (ggml-quants, MIT), restated
 * where each format is decoded, in ref/weights. Activations are rounded to 8 bits in blocks just before a
 * product: q8_0 for weights in blocks of 32 without a minimum, q8_1 (with the sum of the block) for those with one, q8_k
 * for weights in blocks of 256. Everything here is plain C and the contract for the fast
 * products in cpu/weights/linear_quant*. */
#ifndef SAC_QUANTS_H
#define SAC_QUANTS_H

#include "dtype.h"

/* Weight blocks. Rows begin at any even address, mxfp4's at any. */
typedef struct sac_block_q8_0 {
    uint16_t d; /* f16 scale, as every d, m, s and dmin here */
    int8_t q[32];
} sac_block_q8_0;

typedef struct sac_block_q4_0 {
    uint16_t d;
    uint8_t q[16];
} sac_block_q4_0;

typedef struct sac_block_q4_1 {
    uint16_t d, m;
    uint8_t q[16];
} sac_block_q4_1;

typedef struct sac_block_q5_0 {
    uint16_t d;
    uint8_t high[4], q[16];
} sac_block_q5_0;

typedef struct sac_block_q5_1 {
    uint16_t d, m;
    uint8_t high[4], q[16];
} sac_block_q5_1;

typedef struct sac_block_iq4_nl {
    uint16_t d;
    uint8_t q[16];
} sac_block_iq4_nl;

typedef struct sac_block_mxfp4 {
    uint8_t exponent, q[16];
} sac_block_mxfp4;

typedef struct sac_block_q2_k {
    uint8_t scales[16], q[64];
    uint16_t d, dmin;
} sac_block_q2_k;

typedef struct sac_block_q3_k {
    uint8_t high[32], q[64], scales[12];
    uint16_t d;
} sac_block_q3_k;

typedef struct sac_block_q4_k {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t q[128];
} sac_block_q4_k;

typedef struct sac_block_q5_k {
    uint16_t d, dmin;
    uint8_t scales[12], high[32], q[128];
} sac_block_q5_k;

typedef struct sac_block_q6_k {
    uint8_t low[128], high[64];
    int8_t scales[16];
    uint16_t d;
} sac_block_q6_k;

typedef struct sac_block_iq4_xs {
    uint16_t d, scales_high;
    uint8_t scales_low[4], q[128];
} sac_block_iq4_xs;

/* The eight 6-bit scales and minima of a q4_k or q5_k block, and the sixteen scales of a q3_k block, 32 above what they are. */
void sac_q4_k_scales(const uint8_t packed[12], uint8_t scale[8], uint8_t min[8]);
void sac_q3_k_scales(const uint8_t packed[12], uint8_t scale[16]);
/* mxfp4's scale: 2^(exponent - 128), for elements that are held twice as large as they are. */
float sac_mxfp4_scale(uint8_t exponent);

/* Exact: y[i] is the value the format defines, in f32 arithmetic. Any dtype; n a multiple of its block. */
void sac_dequantize_row(sac_dtype t, const void *row, float *y, int64_t n);

/* Activation blocks. */
typedef sac_block_q8_0 sac_xblock_q8_0;

typedef struct sac_xblock_q8_1 {
    uint16_t d, s; /* s = d * (sum of q), from the unrounded d */
    int8_t q[32];
} sac_xblock_q8_1;

typedef struct sac_xblock_q8_k {
    float d;
    int8_t q[256];
    int16_t sum[16]; /* of each 16 of q */
} sac_xblock_q8_k;

/* Rounds x[n] to the format that meets weights of type w (a quantised one): scale max|x| / 127, nearest, ties
 * to even. A NaN in a block makes its scale NaN. n a multiple of w's block. */
void sac_quantize_activations(sac_dtype w, const float *x, void *xq, int64_t n);
size_t sac_activation_row_bytes(sac_dtype w, int64_t n);

/* The product of one weight row and one activation row that the fast kernels reproduce to the bit: exact
 * integer sums of the elements that share a scale (32 or 16), joined from the first to the last by f32 fused
 * multiply-adds. */
float sac_quant_dot(sac_dtype w, const void *row, const void *xq, int64_t n);

#endif
