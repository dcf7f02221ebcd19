/* rounding.h - rows of floats to the nearest numbers of a quantised format, without calibration. Rounding and reading
 * (kernels/ref/weights) are the two directions of a format.
 *
 * Blocks of GGUF: Q8_0, Q4_0, Q4_1, Q5_0 and Q5_1 are bit for bit what gguf-py's quants.py writes; for Q4_K, Q5_K and
 * Q6_K the scales are searched for (k_search.h), as no rule of theirs is part of the format. Codes with scales apart
 * are those of compressed-tensors: scale = largest magnitude over half the range, rounded to the type it is stored in
 * before anything is divided by it. Values must be finite. */
#ifndef SAC_MODELS_ROUNDING_H
#define SAC_MODELS_ROUNDING_H

#include "dtype.h"

#include <stdbool.h>

/* Constant, name: one file each, <name>_rounding.c. */
#define SAC_ROUNDINGS(X)                                                                                     \
    X(Q8_0, q8_0)                                                                                            \
    X(Q4_0, q4_0)                                                                                            \
    X(Q4_1, q4_1)                                                                                            \
    X(Q5_0, q5_0)                                                                                            \
    X(Q5_1, q5_1)                                                                                            \
    X(Q4_K, q4_k)                                                                                            \
    X(Q5_K, q5_k)                                                                                            \
    X(Q6_K, q6_k)

#define X(constant, name) void sac_round_##name(const float *x, void *out, int64_t n);
SAC_ROUNDINGS(X)
#undef X

/* Whether sac_round_row writes the type: those above, F32, F16 and BF16. */
bool sac_can_round(sac_dtype t);

/* One row of n elements, a multiple of the type's block, of magnitudes up to 65504 unless the type is F32 or BF16. */
void sac_round_row(sac_dtype t, const float *x, void *out, int64_t n);

/* The same with scales chosen by how much each column meets (weighted_search.h): importance [n], sums of squares of the columns'
 * inputs. Types for which there is no such choice are rounded to nearest, and so is a row whose columns met nothing. */
bool sac_can_weigh(sac_dtype t);
void sac_round_row_weighted(sac_dtype t, const float *x, const float *importance, void *out, int64_t n);

/* Codes of 4 or 8 bits, or floats of 8 bits (e4m3), each `group` elements of a row with a scale of its own; the last
 * group may be short. */
typedef struct sac_code_format {
    sac_dtype type;       /* PACKED_4, PACKED_8, I8 or FP8 */
    sac_dtype scale_type; /* F32, F16 or BF16 */
    int64_t group;        /* 0: the whole row */
} sac_code_format;

static inline int64_t sac_code_groups(const sac_code_format *f, int64_t n) {
    return f->group && f->group < n ? (n + f->group - 1) / f->group : 1;
}

/* codes: as the type's rows are; scales: sac_code_groups of the scale's type. Either may be NULL. n is a multiple of 8
 * where codes are packed. */
void sac_round_codes(const sac_code_format *f, const float *x, int64_t n, void *codes, void *scales);

/* Its parts, for those who choose codes one after another (gptq.h): the scale of a group, as it is stored; that into place `at`;
 * the code nearest to x, which is in units of the scale, and what it stands for; codes of a row, one a byte, as the type's
 * rows are. */
float sac_code_scale(const sac_code_format *f, const float *x, int64_t n);
void sac_code_store_scale(const sac_code_format *f, float scale, void *scales, int64_t at);
double sac_code_nearest(sac_dtype type, double x, uint8_t *code);
void sac_code_values(const sac_code_format *f, float *x, int64_t n); /* a row becomes what its codes stand for */
void sac_code_pack(sac_dtype type, const uint8_t *codes, int64_t n, uint8_t *out);

/* The nearest number of e4m3, ties to even, what is beyond 448 becomes that. */
uint8_t sac_f32_to_e4m3(float x);

#endif
