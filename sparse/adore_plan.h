/* adore_plan.h - inside sparse/ only: the state of ADORE (adore.c), and who stays, is rebuilt and is released
 * in a step. The plan is made once and is the same for every layer. */
#ifndef SAC_ADORE_PLAN_H
#define SAC_ADORE_PLAN_H

#include "controller.h"
#include "gathered.h"

enum { SIGMA_GRU, SIGMA_ATTENTION };
enum { POS_AUTO, POS_ORIG, POS_COMPACT };
enum { FEATURE_ABS, FEATURE_REL };

typedef struct sac_adore_state {
    int64_t m, r, recent, sink;
    int sigma, pos, feature;
    int64_t n_ctx, max_position, hidden;
    int n_layers;
    const sac_controller *controller;
    sac_controller_scratch scratch;
    /* By token. */
    float *x;     /* [n_ctx][hidden] input embeddings */
    float *z;     /* [1 + n_ctx][controller's hidden], zeros first */
    float *score; /* [n_ctx] */
    int64_t n_seen;
    /* By row. */
    int32_t *row_token; /* [n_ctx + r] */
    int64_t n_cached;   /* rows */
    /* The call at hand, the same for every layer. */
    bool in_step;
    int32_t *stay;   /* [m] cached rows that stay in the cache, ascending */
    int64_t n_stay;  /* rows in it */
    int64_t evicted; /* place in stay of the one that the step's token replaces, or -1 */
    int64_t n_part;  /* who takes part in a step: the rows that stay, those rebuilt, and its own */
    int32_t *part_row, *part_token, *part_rank; /* [m + r + 1] */
    int64_t n_rebuilt;
    bool compact;
    /* Scratch. */
    float *ranks;     /* [n_ctx + r] */
    int32_t *visible; /* [m + r + 1] */
    float *weights;   /* sigma=attention: [n_heads][m + r + 1] */
    float *lse;       /* [n_heads] */
    sac_gathered turned;
} sac_adore_state;

/* What tokens are kept by: their score, except that protected ones (recent, sink) are better than any other.
 * A step's own token is not among those seen when its plan is made, but counts as the newest. */
float sac_adore_rank(const sac_adore_state *s, int64_t token);

/* Before a step: fills everything of "the call at hand". */
sac_status sac_adore_plan_step(sac_adore_state *s, const sac_ops *ops, const sac_stream *stream);

/* After the last layer: which token is where. The step's own lies at own_place. */
void sac_adore_commit_step(sac_adore_state *s, int64_t own_place);

#endif
