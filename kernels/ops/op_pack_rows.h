#ifndef SAC_OP_PACK_ROWS_H
#define SAC_OP_PACK_ROWS_H

#include "kv_view.h"
#include "pack_list.h"
#include "packed_view.h"

/* The rows of kv as rows `to` .. of p: the ranges that p's kinds ask for, then codes. p.v_channel, where p
 * has one, is read. Without p.v keys alone, without p.k values alone. Rows before `to` stay as they are. */
typedef struct sac_pack_rows_args {
    sac_packed_rows p; /* n is to + rows.n */
    sac_kv_view kv;
    sac_pack_rows rows;
    int64_t to; /* where keys have ranges of channels: a multiple of k_group */
} sac_pack_rows_args;

#endif
