/* block_latent.c - queries, keys and values of latents. */
#include "block_parts.h"

/* Of the norms of latents, whatever eps the others have (transformers' DeepseekV3Attention). */
static const float latent_eps = 1e-6f;

/* Latents of all rows in the first columns of an MLP's scratch, which is free before attention; n of them are normed. */
static sac_status make(const sac_block_rows *r, sac_mat *to, int64_t cols, sac_mat x, const sac_weight *w,
                       const float *bias, const float *norm, int64_t n) {
    to->rows = x.rows;
    to->cols = cols;
    SAC_TRY(product(r, *to, x, w, bias, false));
    sac_mat part = *to;
    part.cols = n;
    return r->ops->rmsnorm(r->stream,
                           &(sac_rmsnorm_args){.y = part, .x = part, .w = norm, .eps = latent_eps});
}

sac_status sac_block_latent_queries(const sac_block_rows *r, const sac_decoder_layer *w) {
    const sac_latent_layer *l = &w->latent;
    const int q_rank = r->shape.latent.q_rank;
    sac_mat x = input_of(r, w->attn_norm), c = r->gate;
    if (!q_rank) return product(r, r->q, x, &w->q, NULL, false);
    SAC_TRY(make(r, &c, q_rank, x, &l->q_a, l->q_a_bias, l->q_a_norm, q_rank));
    return product(r, r->q, c, &w->q, NULL, false);
}

sac_status sac_block_latent_keys(const sac_block_rows *r, const sac_decoder_layer *w) {
    const sac_latent_layer *l = &w->latent;
    const sac_latent_shape *s = &r->shape.latent;
    sac_mat c = r->up;
    SAC_TRY(make(r, &c, sac_latent_width(s), input_of(r, w->attn_norm), &l->kv_a, l->kv_a_bias, l->kv_a_norm,
                 s->kv_rank));
    SAC_TRY(product(r, r->k, c, &w->k, NULL, false));
    return product(r, r->v, c, &w->v, NULL, false);
}
