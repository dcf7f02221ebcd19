#ifndef SAC_OP_CHOICE_REUSE_H
#define SAC_OP_CHOICE_REUSE_H

#include "device.h"

#include <stdbool.h>

/* Whether a step reuses a choice made before (TokenSelect's Selection Cache, arXiv:2411.02886, Algorithm 1):
 * *skip becomes 1, for the ops that would make the choice anew, when something is cached, hits[0] is below
 * max_hits (0: any number) and the cosine between q and the query that chose is theta or more: from -1 down
 * always, above 1 never. Then hits[0], since the choice, and hits[1], in all, grow by 1. Otherwise *skip
 * becomes 0, hits[0] too, and q is copied to cached. */
typedef struct sac_choice_reuse_args {
    const float *q; /* [n] */
    float *cached;  /* [n] */
    int64_t n;
    double theta;
    bool empty; /* nothing is cached */
    int64_t max_hits;
    int64_t *hits; /* [2] */
    int32_t *skip; /* [1] */
} sac_choice_reuse_args;

#endif
