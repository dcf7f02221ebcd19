/* block_linear.c - the block of a layer whose attention is linear. */
#include "block_parts.h"

static sac_linear_call linear_call(const sac_block_rows *r, const sac_decoder_layer *w) {
    return (sac_linear_call){.ops = r->ops,
                             .stream = r->stream,
                             .shape = &r->shape.linear,
                             .rows = &r->linear,
                             .weights = &w->linear,
                             .y = r->hidden,
                             .x = input_of(r, w->attn_norm),
                             .rms_eps = r->shape.rms_eps,
                             .fast = r->fast,
                             .steps = r->steps};
}

sac_status sac_block_linear_in(const sac_block_rows *r, const sac_decoder_layer *w) {
    const sac_linear_call c = linear_call(r, w);
    SAC_TRY(normed(r, w->attn_norm));
    return sac_linear_in(&c);
}

sac_status sac_block_linear_recur(const sac_block_rows *r, const sac_decoder_layer *w, int number, int64_t at,
                                  const sac_linear_part *parts, int n_parts) {
    const sac_linear_call c = linear_call(r, w);
    return sac_linear_recur(&c, number, at, parts, n_parts);
}

sac_status sac_block_linear_out(const sac_block_rows *r, const sac_decoder_layer *w) {
    const sac_linear_call c = linear_call(r, w);
    SAC_TRY(sac_linear_out(&c));
    return sac_block_mlp(r, w);
}
