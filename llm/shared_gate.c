/* shared_gate.c - the gate of the MLP that sees every row beside a layer's experts. */
#include "experts.h"

/* A router with one expert, whose score is its own, chooses it for every row, and the weight is the factor: what a row gets is then
 * mixed of one row. */
sac_status sac_experts_gate_shared(const sac_experts_call *c, const sac_weight *gate, sac_mat y,
                                   sac_mat inside) {
    const sac_expert_rows *r = c->rows;
    const sac_mat scores = sac_mat_f32(r->scores, c->x.rows, 1);
    SAC_TRY(
        c->ops->linear(c->stream, &(sac_linear_args){.y = scores, .x = c->x, .w = *gate, .steady = true}));
    SAC_TRY(c->ops->route(c->stream, &(sac_route_args){.scores = scores,
                                                       .n_used = 1,
                                                       .sigmoid = true,
                                                       .weights = r->weights,
                                                       .place = r->place,
                                                       .source = r->source,
                                                       .expert = r->expert,
                                                       .starts = r->starts}));
    return c->ops->mix_rows(
        c->stream,
        &(sac_mix_rows_args){.y = y, .x = inside, .n_used = 1, .weights = r->weights, .place = r->place});
}
