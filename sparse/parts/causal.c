#include "causal.h"

/* The spans that any of the queries lies in, the first and the last of which stand at rows first and after. */
static void add_spans(const sac_layer_attention *a, sac_attention_args *args) {
    const sac_row_span *spans = a->visual, *end = spans + a->n_visual;
    const int64_t first = args->first, behind = first + args->n_q;
    if (!a->shape->sees_spans || !spans) return;
    while (spans < end && spans->first + spans->n <= first) spans++;
    while (end > spans && end[-1].first >= behind) end--;
    args->n_spans = end - spans;
    args->spans = args->n_spans ? spans : NULL;
}

sac_attention_args sac_causal_args(const sac_layer_attention *a, sac_mat q, int64_t first) {
    sac_attention_args args = {.o = q,
                                .q = q,
                                .kv = a->kv,
                                .n_q = q.rows,
                                .n_kv = first + q.rows,
                                .first = first,
                                .n_batch = 1,
                                .n_heads = a->shape->n_heads,
                                .scale = a->scale,
                                .causal = true,
                                .window = a->window,
                                .softcap = a->shape->softcap};
    add_spans(a, &args);
    return args;
}
