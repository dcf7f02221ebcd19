#ifndef SAC_OP_PICK_CHANNELS_H
#define SAC_OP_PICK_CHANNELS_H

#include "kv_view.h"

/* Some channels of rows [first, first + n): channel c of head h of dst.k is channel channels[s][c] of head h
 * of src.k, s the set that the head belongs to. Values are left alone. */
typedef struct sac_pick_channels_args {
    sac_kv_view dst, src;    /* of as many heads */
    const int32_t *channels; /* [n_sets][dst.head_dim] */
    int n_sets;              /* divides the heads */
    int64_t first, n;
} sac_pick_channels_args;

#endif
