#include "attention_view.h"
#include "jpeg_write.h"
#include "status.h"
#include "svg.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MARGIN = 24,
    GAP = 8,
    PAGE_WIDTH = 1200,
    SHEET_TILE = 224,
    LAYER_TILE = 150,
    PLOT_HEIGHT = 180,
    LINE = 20
};

sac_status attention_view_open(attention_view *v, int n_layers, sac_error *err) {
    *v = (attention_view){.n_layers = n_layers};
    v->kept = calloc((size_t)n_layers, sizeof *v->kept);
    return v->kept ? SAC_OK : sac_fail_no_memory(err);
}

void attention_view_free(attention_view *v) {
    for (int i = 0; v->kept && i < v->n_layers; i++) free(v->kept[i]);
    for (size_t i = 0; i < v->n_tiles; i++) free(v->tiles[i].jpeg);
    free(v->kept);
    free(v->tiles);
    *v = (attention_view){0};
}

/* ---------------------------------------------------------------- collecting */

/* Room for n_tokens in all layers that have run: a later prompt is longer. */
static bool grow(attention_view *v, int64_t n_tokens) {
    for (int i = 0; i < v->n_layers && n_tokens > v->n_tokens; i++) {
        if (!v->kept[i]) continue;
        uint8_t *more = realloc(v->kept[i], (size_t)n_tokens);
        if (!more) return false;
        memset(more + v->n_tokens, 0, (size_t)(n_tokens - v->n_tokens));
        v->kept[i] = more;
    }
    if (v->n_tokens < n_tokens) v->n_tokens = n_tokens;
    return true;
}

void attention_view_kept(void *ctx, int layer, const int32_t *kept, int64_t n_kept, int64_t n_tokens) {
    attention_view *v = ctx;
    if (layer >= v->n_layers || n_tokens <= 0) return;
    bool has_room = grow(v, n_tokens);
    if (has_room && !v->kept[layer]) v->kept[layer] = calloc((size_t)v->n_tokens, 1);
    if (!has_room || !v->kept[layer]) {
        v->no_memory = true;
        return;
    }
    for (int64_t i = 0; i < n_kept; i++)
        if (kept[i] >= 0 && kept[i] < n_tokens) v->kept[layer][kept[i]] = 1;
}

static void append_jpeg(void *ctx, void *data, int size) {
    view_tile *t = ctx;
    size_t n = (size_t)size;
    if (t->jpeg_room - t->n_jpeg < n) {
        size_t room = 2 * (t->n_jpeg + n);
        uint8_t *more = realloc(t->jpeg, room);
        if (!more) return; /* noticed by the count below */
        t->jpeg = more;
        t->jpeg_room = room;
    }
    memcpy(t->jpeg + t->n_jpeg, data, n);
    t->n_jpeg += n;
}

void attention_view_tile(void *ctx, size_t media, int64_t tile, int width, int height, const uint8_t *rgb) {
    attention_view *v = ctx;
    if (v->n_tiles == v->tile_room) {
        size_t room = v->tile_room ? 2 * v->tile_room : 16;
        view_tile *more = realloc(v->tiles, room * sizeof *more);
        if (!more) {
            v->no_memory = true;
            return;
        }
        v->tiles = more;
        v->tile_room = room;
    }
    view_tile *t = &v->tiles[v->n_tiles];
    *t = (view_tile){.media = media, .tile = tile, .width = width, .height = height};
    if (!jpeg_write(append_jpeg, t, width, height, rgb, 88) || t->n_jpeg == 0) v->no_memory = true;
    v->n_tiles++;
}

/* ---------------------------------------------------------------- drawing */

typedef struct page {
    svg svg;
    const attention_view *v;
    const sac_token_place *places;
    int64_t n_tokens;
    double y; /* where the next row begins */
} page;

static void put_text(const page *p, double x, double y, int size, const char *text) {
    svg_text(&p->svg, x, y, size, SVG_START, text);
}

static void put_base64(FILE *f, const uint8_t *bytes, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        uint32_t word = (uint32_t)bytes[i] << 16;
        if (i + 1 < n) word |= (uint32_t)bytes[i + 1] << 8;
        if (i + 2 < n) word |= bytes[i + 2];
        fputc(digits[word >> 18], f);
        fputc(digits[word >> 12 & 63], f);
        fputc(i + 1 < n ? digits[word >> 6 & 63] : '=', f);
        fputc(i + 2 < n ? digits[word & 63] : '=', f);
    }
}

/* Every tile once, to be drawn by reference. */
static void put_tiles(const page *p) {
    fputs("<defs>\n", p->svg.f);
    for (size_t i = 0; i < p->v->n_tiles; i++) {
        fprintf(p->svg.f,
                "<image id=\"t%zu\" width=\"1\" height=\"1\" preserveAspectRatio=\"none\" "
                "href=\"data:image/jpeg;base64,",
                i);
        put_base64(p->svg.f, p->v->tiles[i].jpeg, p->v->tiles[i].n_jpeg);
        fputs("\"/>\n", p->svg.f);
    }
    fputs("</defs>\n", p->svg.f);
}

/* Share of the layers [first, end) that kept a token. */
static double kept_share(const page *p, int first, int end, int64_t token) {
    int kept = 0, layers = 0;
    for (int l = first; l < end; l++) {
        if (!p->v->kept[l]) continue;
        layers++;
        kept += p->v->kept[l][token];
    }
    return layers ? (double)kept / layers : 1;
}

/* As large as fits into a square of `size`. */
static void put_tile(const page *p, size_t i, double x, double y, double size, int first, int end) {
    const view_tile *t = &p->v->tiles[i];
    double longest = t->width > t->height ? t->width : t->height;
    double width = size * (t->width / longest), height = size * (t->height / longest);
    fprintf(p->svg.f, "<use href=\"#t%zu\" transform=\"translate(%.1f %.1f) scale(%.1f %.1f)\"/>\n", i, x, y,
            width, height);
    fprintf(p->svg.f, "<g fill=\"#000\" transform=\"translate(%.1f %.1f)\">", x, y);
    for (int64_t token = 0; token < p->n_tokens; token++) {
        const sac_token_place *at = &p->places[token];
        if (at->tile != t->tile || at->media != (int32_t)t->media) continue;
        double left_out = 1 - kept_share(p, first, end, token);
        double cell_w = width / at->columns, cell_h = height / at->rows;
        if (left_out <= 0) continue;
        fprintf(p->svg.f,
                "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill-opacity=\"%.2f\"/>",
                at->column * cell_w, at->row * cell_h, cell_w, cell_h, 0.85 * left_out);
    }
    fputs("</g>\n", p->svg.f);
}

/* All tiles, line by line, with a caption each when there are many. */
static void put_sheet(page *p, const char *heading, double size, int first, int end) {
    double x = MARGIN;
    put_text(p, MARGIN, p->y + 14, 14, heading);
    p->y += LINE + 4;
    for (size_t i = 0; i < p->v->n_tiles; i++) {
        if (x + size > PAGE_WIDTH - MARGIN) {
            x = MARGIN;
            p->y += size + GAP;
        }
        put_tile(p, i, x, p->y, size, first, end);
        x += size + GAP;
    }
    p->y += size + MARGIN;
}

/* One small copy of the tiles a layer, side by side. */
static void put_layers(page *p) {
    double x = MARGIN, width = (double)p->v->n_tiles * LAYER_TILE + (double)(p->v->n_tiles - 1) * 2;
    char text[40];
    put_text(p, MARGIN, p->y + 14, 14, "Kept by each layer");
    p->y += LINE + 4;
    for (int layer = 0; layer < p->v->n_layers; layer++) {
        if (!p->v->kept[layer]) continue;
        if (x > MARGIN && x + width > PAGE_WIDTH - MARGIN) {
            x = MARGIN;
            p->y += LAYER_TILE + LINE + GAP;
        }
        snprintf(text, sizeof text, "layer %d", layer);
        put_text(p, x, p->y + 12, 12, text);
        for (size_t i = 0; i < p->v->n_tiles; i++)
            put_tile(p, i, x + (double)i * (LAYER_TILE + 2), p->y + 16, LAYER_TILE, layer, layer + 1);
        x += width + GAP;
    }
    p->y += LAYER_TILE + LINE + MARGIN;
}

static double layer_share(const page *p, int layer, bool visual) {
    int64_t kept = 0, all = 0;
    for (int64_t t = 0; t < p->n_tokens; t++) {
        if ((p->places[t].tile >= 0) != visual) continue;
        all++;
        kept += p->v->kept[layer][t];
    }
    return all ? (double)kept / (double)all : 0;
}

/* Kept share by layer: a pair of bars, visual and text tokens. */
static void put_plot(page *p) {
    double left = MARGIN + 40, width = PAGE_WIDTH - 2 * MARGIN - 40, top = p->y + LINE + 8;
    double step = width / p->v->n_layers;
    put_text(p, MARGIN, p->y + 14, 14, "Share of tokens kept by layer: visual (dark), text (light)");
    for (int tick = 0; tick <= 4; tick++) {
        double y = top + PLOT_HEIGHT * (1 - tick / 4.0);
        char text[8];
        snprintf(text, sizeof text, "%.2f", tick / 4.0);
        svg_line(&p->svg, left, y, left + width, y, "#ddd", 1);
        put_text(p, MARGIN, y + 4, 11, text);
    }
    for (int layer = 0; layer < p->v->n_layers; layer++) {
        if (!p->v->kept[layer]) continue;
        for (int text = 0; text < 2; text++) {
            double share = layer_share(p, layer, !text), x = left + step * (layer + 0.15 + 0.35 * text);
            svg_rect(&p->svg, x, top + PLOT_HEIGHT * (1 - share), step * 0.33, PLOT_HEIGHT * share,
                     text ? "#9fc5e8" : "#1f4e79");
        }
        char number[12];
        snprintf(number, sizeof number, "%d", layer);
        put_text(p, left + step * (layer + 0.4), top + PLOT_HEIGHT + 14, 11, number);
    }
    p->y = top + PLOT_HEIGHT + LINE + MARGIN;
}

static double page_height(const attention_view *v, bool by_layer) {
    double per_line = floor((PAGE_WIDTH - 2.0 * MARGIN + GAP) / (SHEET_TILE + GAP));
    double height =
        3 * MARGIN + 3 * LINE + ceil((double)v->n_tiles / per_line) * (SHEET_TILE + GAP) + LINE + MARGIN;
    if (by_layer) {
        double width = (double)v->n_tiles * (LAYER_TILE + 2) + GAP;
        double columns = fmax(1, floor((PAGE_WIDTH - 2.0 * MARGIN) / width));
        height += LINE + ceil(v->n_layers / columns) * (LAYER_TILE + LINE + GAP) + MARGIN;
    }
    return height + PLOT_HEIGHT + 3 * LINE + MARGIN;
}

static void draw(page *p, bool by_layer, const char *title, const char *answer) {
    put_tiles(p);
    put_text(p, MARGIN, MARGIN + 14, 18, title);
    put_text(p, MARGIN, MARGIN + 14 + LINE, 14, answer);
    p->y = MARGIN + 2 * LINE + 14;
    put_sheet(p, "What the model saw, brighter where more layers kept the token", SHEET_TILE, 0,
              p->v->n_layers);
    if (by_layer) put_layers(p);
    put_plot(p);
}

/* More tiles than this, and a copy for each layer would be too small to read. */
static const size_t most_tiles_by_layer = 6;

static sac_status write_file(page *p, const char *title, const char *answer, const char *path,
                             sac_error *err) {
    bool by_layer = p->v->n_tiles <= most_tiles_by_layer;
    SAC_TRY(svg_open(&p->svg, path, PAGE_WIDTH, page_height(p->v, by_layer), err));
    draw(p, by_layer, title, answer);
    return svg_close(&p->svg, err);
}

sac_status attention_view_write(const attention_view *v, sac_session *s, const char *title,
                                const char *answer, const char *path, sac_error *err) {
    if (v->no_memory) return sac_fail_no_memory(err);
    if (v->n_tokens == 0)
        return sac_fail(
            err, SAC_BAD_ARGUMENT,
            "the prefill policy chose no tokens to show: give one that does, e.g. --prefill zipvl:min=0");
    sac_token_place *places = calloc((size_t)v->n_tokens, sizeof *places);
    if (!places) return sac_fail_no_memory(err);
    int64_t n = sac_session_token_places(s, places, v->n_tokens);
    page p = {.v = v, .places = places, .n_tokens = n < v->n_tokens ? n : v->n_tokens};
    sac_status st = write_file(&p, title, answer, path, err);
    free(places);
    return st;
}
