/* places.h - which patches of which frames a prompt's layers kept, for the page's overlay. */
#ifndef SERVE_PLACES_H
#define SERVE_PLACES_H

#include "saccade/saccade.h"

#include <jansson.h>

typedef struct serve_places serve_places;

/* by_layer: which layers kept each is wanted, too. NULL without memory. */
serve_places *serve_places_open(bool by_layer);
void serve_places_free(serve_places *p); /* NULL is fine */

/* A layer of the prompt kept these positions, of those below n_tokens. */
void serve_places_kept(serve_places *p, int layer, const int32_t *kept, int64_t n_kept, int64_t n_tokens);

/* {"frames": [{"media", "tile", "time", "rows", "columns", "kept": [share of layers, row by row]}]}; by layer, a frame has
 * "layers", too: a text for each layer that left something out of the prompt, else null. Its digits are hexadecimal, each of
 * four cells, row by row, the first of them the highest bit: 1 = kept. NULL without memory. After sac_session_end, before the session's next call. */
json_t *serve_places_json(serve_places *p, sac_session *s);

#endif
