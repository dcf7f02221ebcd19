#ifndef SAC_OP_PACK_CHANNELS_H
#define SAC_OP_PACK_CHANNELS_H

#include "kv_view.h"
#include "pack_list.h"

/* channel[head * head_dim + c] = sqrt(max |v|) over the rows, 1 where that is 0: what the values of packed
 * rows may be divided by. */
typedef struct sac_pack_channels_args {
    uint16_t *channel; /* [n_heads * head_dim] halves */
    sac_kv_view kv;    /* k is not read */
    sac_pack_rows rows;
} sac_pack_channels_args;

#endif
