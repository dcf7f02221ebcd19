#ifndef SAC_OP_UNPACK_EVEN_H
#define SAC_OP_UNPACK_EVEN_H

#include "even_view.h"
#include "kv_view.h"

/* Tiles as numbers again, turned back and rounded to kv's type, to rows first, first + 1 .. of kv. */
typedef struct sac_unpack_even_args {
    sac_even_tiles tiles;
    sac_kv_view kv;
    int64_t first;
} sac_unpack_even_args;

#endif
