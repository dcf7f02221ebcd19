/* measure.h - how much of dense attention's weight a choice holds: for tables, not for speed. */
#ifndef SAC_MEASURE_H
#define SAC_MEASURE_H

#include "policy.h"

/* What a step's choice is compared with. The lists of a choice and what a view shows are where ops run: on a GPU
 * they are fetched into these rooms of the host, which are NULL on the CPU. */
struct sac_mass {
    sac_buffer scores;     /* float [n_heads][rows of the view] of dense attention */
    float *q;              /* [n_heads * head_dim] where ops run */
    int64_t *start;        /* [n_heads + 1] of the lists */
    int32_t *rows, *shown; /* [n_heads * n_ctx] of the lists, [n_ctx] of the view */
};
void sac_mass_take(sac_mass *m, const sac_attention_shape *shape, const sac_memory *memory);

/* A share, added to the stats where mass is measured. */
void sac_count_prefill_mass(const sac_layer_attention *a, double share);
void sac_count_decode_mass(const sac_layer_attention *a, double share);

/* Before a step's choice, which may turn the query: the scores of dense attention. */
sac_status sac_score_mass(const sac_layer_attention *a, const sac_mass *m);

/* After it: the share of dense attention's weight that the choice holds, added to the stats: mean over query
 * heads. Nothing where rows were dropped: what these would weigh is not known. Waits for the choice. */
sac_status sac_measure_mass(const sac_layer_attention *a, const sac_choice *choice, const sac_mass *m);

#endif
