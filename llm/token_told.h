/* token_told.h - what the choice of a token needs of its logits, and what a device tells of them so that the rest may stay there. */
#ifndef SAC_LLM_TOKEN_TOLD_H
#define SAC_LLM_TOKEN_TOLD_H

#include "op_edit_scores.h"

/* Of a row: logits that a device may be asked for one by one, and changes that it may be told of; where more are wanted it gives all. */
enum { SAC_MOST_BEST = 1024, SAC_MOST_EDITS = 2048 };

struct sac_sampler;

/* All zero: all logits come to the host. */
typedef struct sac_token_wanted {
    int n_best;     /* so many of the largest at least; 0: all */
    int n_top;      /* log probabilities of so many of them, and of the token that is chosen; -1: none */
    bool is_edited; /* biases and penalties change logits before (sac_sampler_edits) */
    float scale;    /* what all weigh is asked for, over one over this temperature; 0: it is not */
    double u;       /* and a token that is drawn of all, where above 0 */
    const struct sac_sampler *sampler;              /* whose choice it is; NULL: a guess, which is the largest */
    void (*mask)(void *ctx, uint32_t *bits, int n); /* clears bits of tokens that may not come; NULL: all may */
    void *mask_ctx;
} sac_token_wanted;

/* What came of it. Lists stay until the next step. */
typedef struct sac_token_told {
    bool is_told;   /* the logits have stayed; otherwise they came, */
    bool is_edited; /* edited and masked */
    int32_t largest_at; /* as the op `largest` has them */
    float largest;
    int n_best;             /* best[i] of id best_at[i], by rising ids, as the op top_k chooses; 0 where no more than one was wanted */
    const int32_t *best_at;
    const float *best;
    double total; /* as the op `weigh_scores` has them */
    int32_t drawn_at;
    float drawn;
} sac_token_told;

#endif
