#ifndef SAC_OP_PACK_ROWS_H
#define SAC_OP_PACK_ROWS_H

#include "kv_view.h"
#include "pack_list.h"
#include "packed_view.h"

/* The rows of kv as rows `to` .. of p: the ranges that p's kinds ask for, then codes. p.v_channel, where p
 * has one, is read. Without p.v keys alone. A device may know only keys with one range a channel for all rows
 * and values with ranges over whole heads, both from row 0 on; or keys alone with a range a row. */
typedef struct sac_pack_rows_args {
    sac_packed_rows p; /* n is to + rows.n */
    sac_kv_view kv;
    sac_pack_rows rows;
    int64_t to; /* above 0: keys alone, with a range a row */
} sac_pack_rows_args;

#endif
