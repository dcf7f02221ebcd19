/* block_parts.h - what the files of the block share. Of block.c, block_latent.c and block_linear.c alone. */
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
                                                        .steady = r->steps,
                                                        .n_unsteady = r->n_prompt});
}

/* Queries, and keys and values, of the rows that input_of gives, normed already (block_latent.c). */
sac_status sac_block_latent_queries(const sac_block_rows *r, const sac_decoder_layer *w);
sac_status sac_block_latent_keys(const sac_block_rows *r, const sac_decoder_layer *w);

#endif
