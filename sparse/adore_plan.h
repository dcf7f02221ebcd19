/* adore_plan.h - inside sparse/ only: the state of ADORE (adore.c), and who stays, is rebuilt and is released
 * in a step. The plan is made once and is the same for every layer. */
#ifndef SAC_ADORE_PLAN_H
#define SAC_ADORE_PLAN_H

#include "controller.h"
#include "gathered.h"

enum { SIGMA_GRU, SIGMA_ATTENTION };
enum { POS_AUTO, POS_ORIG, POS_COMPACT };

typedef struct sac_adore_state {
    int64_t m, r, recent, sink;
    int sigma, pos;
    sac_controller_feature feature;
    double unit; /* tokens that the controller's position 1 stands for */
    int64_t n_ctx, max_position, hidden;
    int n_layers;
    const sac_controller *controller;
    sac_controller_scratch scratch;
    sac_dtype dtype; /* of embeddings */
    /* By token. */
    void *x;          /* [n_ctx][hidden] input embeddings, where ops run */
    sac_buffer z;     /* float [1 + n_ctx][controller's hidden], zeros first */
    sac_buffer score; /* float [n_ctx]; the host's side is the truth */
    int64_t n_seen;
    /* By row. */
    int32_t *row_token; /* [n_ctx + r] */
    int64_t n_cached;   /* rows */
    /* The call at hand, the same for every layer: what ops read of it is sent once. */
    bool in_step;
    sac_buffer stay; /* int32_t [m] cached rows that stay in the cache, ascending */
    int64_t n_stay;  /* rows in it */
    int64_t evicted; /* place in stay of the one that the step's token replaces, or -1 */
    int64_t place;   /* of the step's own row among those that stay */
    int64_t n_part;  /* who takes part in a step: the rows that stay, those rebuilt, and its own */
    sac_buffer part_row, part_token; /* int32_t [m + r + 1] */
    int32_t *part_rank;              /* [m + r + 1] */
    sac_buffer part_start;           /* int64_t [2] of the list of them all */
    sac_buffer turn;                 /* int32_t [m + r + 1] how far their keys are turned back */
    sac_buffer visible;              /* int32_t [r + 1][m + r + 1] what each query of a step sees */
    sac_buffer visible_start;        /* int64_t [r + 2] */
    sac_buffer own_row;              /* int32_t: the step's own row, counted from `place` */
    int64_t n_rebuilt;
    bool compact;
    /* Scratch. */
    sac_buffer ranks;   /* float [n_ctx + r + 1] */
    sac_buffer weights; /* sigma=attention: float [n_heads][m + r + 1] */
    float *lse;         /* [n_heads] where ops run */
    float *q;           /* [n_heads * head_dim] likewise */
    int32_t *in_order;  /* [n_ctx] likewise: 0, 1 .. */
    bool is_in_order;   /* they have been written */
    sac_gathered turned;
} sac_adore_state;

/* What tokens are kept by: their score, except that protected ones (recent, sink) are better than any other.
 * A step's own token is not among those seen when its plan is made, but counts as the newest. */
float sac_adore_rank(const sac_adore_state *s, int64_t token);

/* The k best of n ranks (fewer where there are fewer), ascending, to int32_t `best`, fetched. */
sac_status sac_adore_best(sac_adore_state *s, const sac_ops *ops, const sac_stream *stream, int64_t n,
                          int64_t k, sac_buffer best);

/* Before a step: fills everything of "the call at hand". */
sac_status sac_adore_plan_step(sac_adore_state *s, const sac_ops *ops, const sac_stream *stream);

/* After the last layer: which token is where. */
void sac_adore_commit_step(sac_adore_state *s);

#endif
