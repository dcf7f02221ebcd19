/* ref_weights.h - what the numbers of each weight format mean: the contract of its kernels. A format is a file here of
 * its name with a sac_ref_weight, see weight.h. */
#ifndef SAC_REF_WEIGHTS_H
#define SAC_REF_WEIGHTS_H

#include "weight.h"

#include <stdbool.h>

typedef struct sac_ref_weight {
    /* Whether the parts are those of an [n][k] matrix: a precondition of the ops. */
    bool (*holds)(const sac_weight *w, int64_t n, int64_t k);
    /* Row j of k elements, exactly as the format defines it in f32 arithmetic. */
    void (*row)(const sac_weight *w, int64_t j, int64_t k, float *y);

    /* Where rows of x are rounded to 8 bits to meet the weights (quants.h), otherwise no functions: */
    size_t x_block_bytes; /* of as many elements as a block of weights has */
    void (*round_x)(const float *x, void *xq, int64_t n);
    float (*dot)(const void *row, const void *xq, int64_t n);
} sac_ref_weight;

#define X(constant, name) extern const sac_ref_weight sac_ref_weight_##name;
SAC_WEIGHT_FORMATS(X)
#undef X

const sac_ref_weight *sac_ref_weight_of(const sac_weight *w);

/* For formats that are one tensor of rows, each of whole blocks: `holds`, and where row j begins. */
bool sac_ref_holds_rows(const sac_weight *w, int64_t n, int64_t k);
const void *sac_ref_row_of(const sac_weight *w, int64_t j);

#endif
