/* block_parts.h - what the files of the block share. Of block.c and block_linear.c alone. */
#ifndef SAC_LLM_BLOCK_PARTS_H
#define SAC_LLM_BLOCK_PARTS_H

#include "block.h"

/* What a part reads: the hidden rows, normed to r->norm where there is a norm. */
static inline sac_mat input_of(const sac_block_rows *r, const float *norm) {
    return norm ? r->norm : r->hidden;
}

static inline sac_status normed(const sac_block_rows *r, const float *norm) {
    if (!norm) return SAC_OK;
    return r->ops->rmsnorm(
        r->stream, &(sac_rmsnorm_args){.y = r->norm, .x = r->hidden, .w = norm, .eps = r->shape.rms_eps});
}

static inline sac_status product(const sac_block_rows *r, sac_mat y, sac_mat x, const sac_weight *w,
                                 const float *bias, bool accumulate) {
    return r->ops->linear(r->stream, &(sac_linear_args){.y = y,
                                                        .x = x,
                                                        .w = *w,
                                                        .bias = bias,
                                                        .accumulate = accumulate,
                                                        .fast = r->fast,
                                                        .steady = r->steps});
}

#endif
