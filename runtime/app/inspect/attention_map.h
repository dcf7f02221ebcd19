/* attention_map.h - a small drawing of what methods kept: layers and heads downwards, the frames of a video (pictures, text) from left
 * to right, the darker the larger the share of their tokens that was kept while the prompt was read, and read while answering. */
#ifndef APP_ATTENTION_MAP_H
#define APP_ATTENTION_MAP_H

#include "saccade/status.h"

#include <saccade/saccade.h>

/* Of a layer: how often each token was kept, list by list. */
typedef struct map_layer {
    int n_lists; /* 0: the layer has told nothing, and left out nothing */
    int64_t times;
    uint32_t *count; /* [n_lists][n_tokens] */
} map_layer;

/* Of all layers. */
typedef struct map_part {
    map_layer *layers; /* [n_layers] */
    int n_layers;
    int64_t n_tokens; /* of the prompt, as the first that tells has it; later ones are not drawn */
    bool no_memory;
} map_part;

typedef struct attention_map {
    map_part prompt, steps;
} attention_map;

sac_status attention_map_open(attention_map *m, int n_layers, sac_error *err); /* on failure, too, free it */
void attention_map_free(attention_map *m);

/* For sac_session_observe_kept with &m->prompt, and sac_session_observe_read with &m->steps. */
void attention_map_kept(void *ctx, int layer, const int32_t *kept, int64_t n_kept, int64_t n_tokens);
void attention_map_read(void *ctx, int layer, int list, int n_lists, const int32_t *tokens, int64_t n,
                        int64_t n_tokens);

/* After the answer to a prompt of n_prompt tokens. `title` and `line` are printed above. n_heads: of the model's queries. BAD_ARGUMENT when no method left
 * anything out. The file is complete or not there. */
sac_status attention_map_write(const attention_map *m, sac_session *s, int64_t n_prompt, int n_heads,
                               const char *title, const char *line, const char *path, sac_error *err);

#endif
