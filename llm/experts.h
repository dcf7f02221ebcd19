/* experts.h - a layer's MLP as a mixture of experts (Shazeer et al., arXiv:1701.06538): of each row the router's scores
 * choose a few, each an MLP of its own, and what these make is weighted and added up.
 *
 *   scores = linear(router, x);  route;  e = the rows, once for each expert that they chose, in order of the expert
 *   e = down(act(gate(e)) * up(e)), each by its expert's matrices;  y = mix of e
 *
 * Which rows an expert gets only the ops know: on a device nothing of it comes to the host. */
#ifndef SAC_LLM_EXPERTS_H
#define SAC_LLM_EXPERTS_H

#include "arena.h"
#include "ops.h"

/* One expert: [intermediate][hidden] x 2, [hidden][intermediate]. */
typedef struct sac_expert {
    sac_weight gate, up, down;
} sac_expert;

/* Sizes that all layers with experts share. */
typedef struct sac_expert_shape {
    int n;            /* experts; 0: the model has none */
    int n_used;       /* that see a row */
    int intermediate; /* channels of each */
    bool normed;      /* the weights of a row's experts add up to 1 */
    int shared;       /* channels of an MLP that sees every row beside them; 0: there is none */
    bool
        sigmoid; /* a score is an expert's own, as in op_route.h; the fields below are looked at with it only */
    int n_groups, n_groups_used; /* 0: no groups */
    float factor;                /* of the weights; 0: 1 */
    bool shared_gated;           /* what the shared MLP makes of a row is multiplied by a number of the row's own */
} sac_expert_shape;

/* Scratch for some rows. Matrices are in the type of activations. */
typedef struct sac_expert_rows {
    float *scores, *weights;                   /* [rows][n], [rows][n_used] */
    int32_t *place, *source, *expert, *starts; /* as in op_route.h */
    void *x;         /* [rows * n_used][hidden] what experts see, then what they make of it */
    void *gate, *up; /* [rows * n_used][intermediate] */
} sac_expert_rows;

/* Takes nothing where the model has no experts. */
sac_expert_rows sac_expert_rows_take(const sac_expert_shape *shape, int64_t hidden, int64_t rows, sac_dtype t,
                                     sac_arena *arena);

/* y = what the experts of each row of x make of it, or y += that; y may be x. */
typedef struct sac_experts_call {
    const sac_ops *ops;
    const sac_stream *stream;
    const sac_expert_shape *shape;
    const sac_expert_rows *rows;
    const sac_weight *router;  /* [n][hidden] */
    const float *router_bias;  /* [n], of what chooses; NULL: none */
    const sac_expert *experts; /* [n] */
    sac_activation act;        /* of the gate, as in op_swiglu.h */
    sac_mat y, x;              /* [rows][hidden] */
    bool accumulate, fast;
} sac_experts_call;
sac_status sac_experts_run(const sac_experts_call *c);

/* y = inside, each row times the sigmoid of its row of c->x times `gate` [1][hidden]: the channels of the MLP beside the experts, whose
 * last product keeps the factor (Qwen2-MoE, arXiv:2407.10671, sec. 2.2.2). Not in place; c->rows are scratch. */
sac_status sac_experts_gate_shared(const sac_experts_call *c, const sac_weight *gate, sac_mat y, sac_mat inside);

#endif
