#include "places.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* What one layer kept. */
typedef struct serve_layer_places {
    uint8_t *kept; /* [n] 1 = kept; NULL = all */
    int64_t n;
} serve_layer_places;

struct serve_places {
    uint32_t *n_layers; /* [n] that kept the position */
    int64_t n;
    uint32_t n_all; /* layers seen */
    bool by_layer;
    serve_layer_places *layers; /* [n_layer_places] */
    int n_layer_places;
};

serve_places *serve_places_open(bool by_layer) {
    serve_places *p = calloc(1, sizeof *p);
    if (p) p->by_layer = by_layer;
    return p;
}

void serve_places_free(serve_places *p) {
    if (!p) return;
    for (int i = 0; i < p->n_layer_places; i++) free(p->layers[i].kept);
    free(p->layers);
    free(p->n_layers);
    free(p);
}

/* Without memory for it, a layer counts as one that kept all. */
static void note_layer(serve_places *p, int layer, const int32_t *kept, int64_t n_kept, int64_t n_tokens) {
    if (layer < 0) return;
    if (layer >= p->n_layer_places) {
        serve_layer_places *more = realloc(p->layers, (size_t)(layer + 1) * sizeof *more);
        if (!more) return;
        for (int i = p->n_layer_places; i <= layer; i++) more[i] = (serve_layer_places){0};
        p->layers = more;
        p->n_layer_places = layer + 1;
    }
    serve_layer_places *l = &p->layers[layer];
    free(l->kept);
    *l = (serve_layer_places){.kept = n_kept < n_tokens ? calloc((size_t)n_tokens, 1) : NULL, .n = n_tokens};
    for (int64_t i = 0; l->kept && i < n_kept; i++)
        if (kept[i] >= 0 && kept[i] < n_tokens) l->kept[kept[i]] = 1;
}

void serve_places_kept(serve_places *p, int layer, const int32_t *kept, int64_t n_kept, int64_t n_tokens) {
    if (p->by_layer) note_layer(p, layer, kept, n_kept, n_tokens);
    if (n_tokens > p->n) {
        uint32_t *more = realloc(p->n_layers, (size_t)n_tokens * sizeof *more);
        if (!more) return;
        for (int64_t i = p->n; i < n_tokens; i++) more[i] = p->n_all;
        p->n_layers = more;
        p->n = n_tokens;
    }
    p->n_all++;
    for (int64_t i = 0; i < n_kept; i++)
        if (kept[i] < p->n) p->n_layers[kept[i]]++;
}

/* Positions that no layer told of (they were in the cache already, or the method keeps everything) count as
 * kept. */
static double share(const serve_places *p, int64_t position) {
    if (p->n_all == 0 || position >= p->n) return 1;
    return round(1000.0 * p->n_layers[position] / p->n_all) / 1000;
}

/* cells: [n_cells] the position of each, -1 = none. */
static json_t *layer_json(const serve_layer_places *l, const int64_t *cells, int n_cells) {
    const int n_digits = (n_cells + 3) / 4;
    char *text = l->kept ? calloc((size_t)n_digits + 1, 1) : NULL;
    if (!text) return json_null();
    for (int d = 0; d < n_digits; d++) {
        unsigned bits = 0;
        for (int i = 4 * d; i < 4 * d + 4; i++) {
            const bool kept = i < n_cells && cells[i] >= 0 && (cells[i] >= l->n || l->kept[cells[i]]);
            bits = 2 * bits + kept;
        }
        text[d] = "0123456789abcdef"[bits];
    }
    json_t *j = json_string(text);
    free(text);
    return j;
}

static json_t *layers_json(const serve_places *p, const int64_t *cells, int n_cells) {
    json_t *list = json_array();
    for (int i = 0; cells && i < p->n_layer_places; i++)
        json_array_append_new(list, layer_json(&p->layers[i], cells, n_cells));
    return list;
}

/* When the frame was, or the first of several, that a tile shows; null of a picture. */
static json_t *time_json(const sac_media_report *m, int tile) {
    if (!m->time_s || m->n_frames < 1 || m->n_tiles < 1) return json_null();
    const int frame = m->n_tiles >= m->n_frames ? tile / (m->n_tiles / m->n_frames) : tile * ((m->n_frames + m->n_tiles - 1) / m->n_tiles);
    return frame < m->n_frames ? json_real(m->time_s[frame]) : json_null();
}

/* The tile's cells, row by row; -1 for those that have no token. `from`: the tile's first position. */
static json_t *tile_json(const serve_places *p, sac_session *s, const sac_token_place *places, int64_t from,
                         int64_t n) {
    const sac_token_place *first = &places[from];
    int rows = first->rows > 0 ? first->rows : 1, columns = first->columns > 0 ? first->columns : 1;
    int n_cells = rows * columns;
    int64_t *cells = malloc((size_t)n_cells * sizeof *cells);
    json_t *kept = json_array();
    for (int i = 0; cells && i < n_cells; i++) cells[i] = -1;
    for (int64_t i = from; cells && i < n && places[i].media == first->media && places[i].tile == first->tile;
         i++)
        if (places[i].row < rows && places[i].column < columns)
            cells[places[i].row * columns + places[i].column] = i;
    for (int i = 0; cells && i < n_cells; i++)
        json_array_append_new(kept, json_real(cells[i] < 0 ? -1 : share(p, cells[i])));
    json_t *layers = p->by_layer ? layers_json(p, cells, n_cells) : NULL;
    free(cells);
    const sac_media_report *media;
    size_t n_media = sac_session_media(s, &media);
    json_t *time = (size_t)first->media < n_media ? time_json(&media[first->media], first->tile) : json_null();
    return json_pack("{s:i, s:i, s:o, s:i, s:i, s:o, s:o*}", "media", (int)first->media, "tile",
                     (int)first->tile, "time", time, "rows", rows, "columns", columns, "kept", kept, "layers", layers);
}

json_t *serve_places_json(serve_places *p, sac_session *s) {
    int64_t n = sac_session_token_places(s, NULL, 0);
    sac_token_place *places = calloc((size_t)n + 1, sizeof *places);
    json_t *frames = json_array();
    if (places) sac_session_token_places(s, places, n);
    int32_t media = -1, tile = -1;
    for (int64_t i = 0; places && i < n; i++) {
        if (places[i].tile < 0 || (places[i].media == media && places[i].tile == tile)) continue;
        media = places[i].media;
        tile = places[i].tile;
        json_array_append_new(frames, tile_json(p, s, places, i, n));
    }
    free(places);
    return json_pack("{s:o}", "frames", frames);
}
