#ifndef SAC_OP_UNPACK_ROWS_H
#define SAC_OP_UNPACK_ROWS_H

#include "kv_view.h"
#include "pack_list.h"
#include "packed_view.h"

/* Rows from, from + 1 .. of p as numbers again, rounded to kv's type, to the rows of kv that `rows` says, in
 * that order. Without p.v keys alone, without p.k values alone. */
typedef struct sac_unpack_rows_args {
    sac_packed_rows p; /* n at least from + rows.n */
    int64_t from;
    sac_kv_view kv;
    sac_pack_rows rows;
} sac_unpack_rows_args;

#endif
