#ifndef SAC_OP_ATTENTION_MANY_H
#define SAC_OP_ATTENTION_MANY_H

#include "op_attention.h"

/* Several calls of attention, or of packed_step, that do not write what another reads: one query of each of
 * several sequences, where a device gains by reading all their keys in one go. It knows steps of one model
 * only (the same heads, types, scale, softcap, window and causal) and refuses all where it refuses one. attention_many
 * knows calls over all rows of a view and over lists, of all heads or of a key-value head each, whose lengths
 * the host knows; none with lse. */
typedef struct sac_attention_many_args {
    const sac_attention_args *each;
    int n;
} sac_attention_many_args;

#endif
