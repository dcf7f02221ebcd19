/* attention_view.h - a picture of which visual tokens each layer of a prefill kept: the tiles that the model
 * saw, dimmed where tokens were left out, and the kept share of every layer. Written as SVG with the tiles
 * inside. */
#ifndef APP_ATTENTION_VIEW_H
#define APP_ATTENTION_VIEW_H

#include "saccade/status.h"

#include <saccade/saccade.h>

typedef struct view_tile {
    size_t media;
    int64_t tile;
    int width, height; /* in pixels */
    uint8_t *jpeg;
    size_t n_jpeg, jpeg_room;
} view_tile;

typedef struct attention_view {
    int n_layers;
    int64_t n_tokens; /* of the longest prompt seen */
    uint8_t **kept;   /* [n_layers][n_tokens], NULL until the layer has run */
    view_tile *tiles;
    size_t n_tiles, tile_room;
    bool no_memory;
} attention_view;

sac_status attention_view_open(attention_view *v, int n_layers, sac_error *err);
void attention_view_free(attention_view *v);

/* For sac_session_observe_kept and sac_events.tile; ctx is the view. */
void attention_view_kept(void *ctx, int layer, const int32_t *kept, int64_t n_kept, int64_t n_tokens);
void attention_view_tile(void *ctx, size_t media, int64_t tile, int width, int height, const uint8_t *rgb);

/* After the prefill. `title` and `answer` are printed above. The file is complete or not there. */
sac_status attention_view_write(const attention_view *v, sac_session *s, const char *title,
                                const char *answer, const char *path, sac_error *err);

#endif
