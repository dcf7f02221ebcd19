/* even_tiles.h - where a tile's codes, ranges and factors lie, and a head of a tile at a time: its factors, its codes and
 * its numbers. */
#ifndef SAC_EVEN_TILES_H
#define SAC_EVEN_TILES_H

#include "even.h"
#include "packed_rows.h"

/* A tile's parts in the order of its memory: words of keys and of values, then halves. They are parts of packed rows, keys
 * without values and values without keys, as their bits differ. */
typedef struct sac_even_tile {
    sac_packed_rows keys, values;
    uint16_t *factor; /* of keys: [n_heads][SAC_EVEN_TILE] */
} sac_even_tile;

size_t sac_even_tile_bytes(int n_heads, int head_dim, int k_bits, int v_bits);
sac_even_tile sac_even_tile_at(const sac_even_tiles *t, int64_t i);

/* What ops ask of tiles and of the view that rows [first, ..) come from or go to. */
bool sac_even_is_valid(const sac_even_tiles *t);
bool sac_even_fits(const sac_even_tiles *t, const sac_kv_view *kv, int64_t first);

/* Tasks of tiles: keys and values of a head of a tile, one each. */
static inline int64_t sac_even_n_tasks(const sac_even_tiles *t) {
    return t->n * t->n_heads * 2;
}
#define SAC_EVEN_SCRATCH_FLOATS (2 * SAC_EVEN_TILE * SAC_EVEN_MAX + SAC_EVEN_MAX)
void sac_even_find(const sac_even_tiles *t, const sac_kv_view *kv, int64_t first, int64_t task, float *scratch);
void sac_even_pack(const sac_even_tiles *t, const sac_kv_view *kv, int64_t first, int64_t task, float *scratch);
void sac_even_unpack(const sac_even_tiles *t, const sac_kv_view *kv, int64_t first, int64_t task, float *scratch);

#endif
