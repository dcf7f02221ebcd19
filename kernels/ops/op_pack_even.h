#ifndef SAC_OP_PACK_EVEN_H
#define SAC_OP_PACK_EVEN_H

#include "even_view.h"
#include "kv_view.h"

/* Ranges and codes of tiles whose factors are there, from rows first, first + 1 .. of kv. */
typedef struct sac_pack_even_args {
    sac_even_tiles tiles;
    sac_kv_view kv; /* at least first + n * SAC_EVEN_TILE rows */
    int64_t first;
} sac_pack_even_args;

#endif
