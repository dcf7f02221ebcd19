/* reduce.h - leaving visual tokens of a picture out before the language model sees any of them.
 *
 * How many stay is known before the tower runs, so that prompts can be measured; which ones is decided by
 * what the tower itself looked at. */
#ifndef SAC_REDUCE_H
#define SAC_REDUCE_H

#include "method.h"

#include <stdint.h>

#define SAC_REDUCE_MAX_TILES 256

/* A reducer with its settings. */
typedef struct sac_reduce {
    bool is_on;
    double p[SAC_METHOD_MAX_PARAMS];
} sac_reduce;

/* A picture cut into tiles of rows x columns tokens. With more than one tile the first is the whole picture, and
 * the others are its parts, tiles_w x tiles_h of them, row by row. */
typedef struct sac_reduce_picture {
    int n_tiles, rows, columns, tiles_w, tiles_h;
} sac_reduce_picture;

/* From a line "none" or "hired:rate=0.2,..."; a rate of 1 is none. */
sac_status sac_reduce_parse(sac_reduce *r, const char *line, sac_error *err);
void sac_reduce_print(const sac_reduce *r, char *text, size_t capacity);

/* Tokens that stay: at least one. */
int64_t sac_reduce_count(const sac_reduce *r, const sac_reduce_picture *p);

/* Which: rows of [n_tiles * rows * columns], tile by tile, ascending within a tile, sac_reduce_count of them.
 * first, last [n_tiles][stride]: attention that the class token gives to each patch, summed over heads, in
 * the tower's first layer and in the last one that runs. */
void sac_reduce_choose(const sac_reduce *r, const sac_reduce_picture *p, const float *first,
                       const float *last, int64_t stride, int32_t *source);

#endif
