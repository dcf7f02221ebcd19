#include "causal.h"

sac_attention_args sac_causal_args(const sac_layer_attention *a, sac_mat q, int64_t first) {
    return (sac_attention_args){.o = q,
                                .q = q,
                                .kv = a->kv,
                                .n_q = q.rows,
                                .n_kv = first + q.rows,
                                .first = first,
                                .n_batch = 1,
                                .n_heads = a->shape->n_heads,
                                .scale = a->scale,
                                .causal = true,
                                .window = a->shape->window};
}
