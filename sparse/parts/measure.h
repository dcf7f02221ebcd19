/* measure.h - how much of dense attention's weight a choice holds: for tables, not for speed. */
#ifndef SAC_MEASURE_H
#define SAC_MEASURE_H

#include "policy.h"

/* A share, added to the stats where mass is measured. */
void sac_count_prefill_mass(const sac_layer_attention *a, double share);
void sac_count_decode_mass(const sac_layer_attention *a, double share);

/* Before a step's choice, which may turn the query: the scores of dense attention [n_heads][n_ctx]. */
sac_status sac_score_mass(const sac_layer_attention *a, float *scores);

/* After it: the share of dense attention's weight that the choice holds, added to the stats: mean over query
 * heads. Nothing where rows were dropped: what these would weigh is not known. */
void sac_measure_mass(const sac_layer_attention *a, const sac_choice *choice, const float *scores);

#endif
