#include "places.h"

#include <math.h>
#include <stdlib.h>

struct serve_places {
    uint32_t *n_layers; /* [n] that kept the position */
    int64_t n;
    uint32_t n_all; /* layers seen */
};

serve_places *serve_places_open(void) {
    return calloc(1, sizeof(serve_places));
}

void serve_places_free(serve_places *p) {
    if (!p) return;
    free(p->n_layers);
    free(p);
}

void serve_places_kept(serve_places *p, const int32_t *kept, int64_t n_kept, int64_t n_tokens) {
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

/* The tile's cells, row by row; -1 for those that have no token. `from`: the tile's first position. */
static json_t *tile_json(const serve_places *p, sac_session *s, const sac_token_place *places, int64_t from,
                         int64_t n) {
    const sac_token_place *first = &places[from];
    int rows = first->rows > 0 ? first->rows : 1, columns = first->columns > 0 ? first->columns : 1;
    int n_cells = rows * columns;
    double *cells = malloc((size_t)n_cells * sizeof *cells);
    json_t *kept = json_array();
    for (int i = 0; cells && i < n_cells; i++) cells[i] = -1;
    for (int64_t i = from; cells && i < n && places[i].media == first->media && places[i].tile == first->tile;
         i++)
        if (places[i].row < rows && places[i].column < columns)
            cells[places[i].row * columns + places[i].column] = share(p, i);
    for (int i = 0; cells && i < n_cells; i++) json_array_append_new(kept, json_real(cells[i]));
    free(cells);
    const sac_media_report *media;
    size_t n_media = sac_session_media(s, &media);
    bool timed = (size_t)first->media < n_media && media[first->media].time_s &&
                 first->tile < media[first->media].n_frames;
    return json_pack("{s:i, s:i, s:o, s:i, s:i, s:o}", "media", (int)first->media, "tile", (int)first->tile,
                     "time", timed ? json_real(media[first->media].time_s[first->tile]) : json_null(), "rows",
                     rows, "columns", columns, "kept", kept);
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
