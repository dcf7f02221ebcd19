#ifndef SAC_OP_ATTENTION_MANY_H
#define SAC_OP_ATTENTION_MANY_H

#include "op_attention.h"

/* Several calls of attention, or of packed_step, that do not write what another reads: one query of each of
 * several sequences, where a device gains by reading all their keys in one go. It knows plain steps of one
 * model only (the same heads, types, scale, window and causal; attention_many: no lists, no lse), and refuses
 * all where it refuses one. */
typedef struct sac_attention_many_args {
    const sac_attention_args *each;
    int n;
} sac_attention_many_args;

#endif
