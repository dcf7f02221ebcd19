/* causal.h - the arguments of plain causal attention, where every part of a method begins. */
#ifndef SAC_CAUSAL_H
#define SAC_CAUSAL_H

#include "policy.h"

/* Queries q over all rows up to theirs, the first of them standing at row `first`. */
sac_attention_args sac_causal_args(const sac_layer_attention *a, sac_mat q, int64_t first);

#endif
