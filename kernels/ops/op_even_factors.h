#ifndef SAC_OP_EVEN_FACTORS_H
#define SAC_OP_EVEN_FACTORS_H

#include "even_view.h"
#include "kv_view.h"

/* The factors of tiles, and nothing else of them, from rows first, first + 1 .. of kv: what sac_even_factors (even.h)
 * finds for a tile's turned keys and values, as halves. Rounds may be as good as each other: which of them is kept is a matter
 * of rounding, and from one to the next all factors of a tile grow or shrink together. */
typedef struct sac_even_factors_args {
    sac_even_tiles tiles;
    sac_kv_view kv; /* at least first + n * SAC_EVEN_TILE rows */
    int64_t first;
} sac_even_factors_args;

#endif
