#include "sparse.h"

static sac_status attend(void *state, const sac_layer_attention *a) {
    (void)state;
    return a->ops->attention(a->stream, &(sac_attention_args){
                                            .o = a->q,
                                            .q = a->q,
                                            .kv = a->kv,
                                            .n_q = a->q.rows,
                                            .n_kv = a->past + a->q.rows,
                                            .first = a->past,
                                            .n_batch = 1,
                                            .n_heads = a->n_heads,
                                            .scale = a->scale,
                                            .causal = true,
                                            .window = a->window,
                                        });
}

const sac_prefill_policy sac_prefill_dense = {"dense", "every query meets every earlier key", attend};
const sac_decode_policy sac_decode_dense = {"dense", "a step reads every stored row", attend};
