#include "attention_map.h"
#include "plot.h"
#include "status.h"
#include "svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- collecting */

static sac_status open_part(map_part *p, int n_layers, sac_error *err) {
    *p = (map_part){.layers = calloc((size_t)n_layers, sizeof *p->layers), .n_layers = n_layers};
    return p->layers ? SAC_OK : sac_fail_no_memory(err);
}

sac_status attention_map_open(attention_map *m, int n_layers, sac_error *err) {
    *m = (attention_map){0};
    SAC_TRY(open_part(&m->prompt, n_layers, err));
    return open_part(&m->steps, n_layers, err);
}

static void free_part(map_part *p) {
    for (int i = 0; p->layers && i < p->n_layers; i++) free(p->layers[i].count);
    free(p->layers);
}

void attention_map_free(attention_map *m) {
    free_part(&m->prompt);
    free_part(&m->steps);
    *m = (attention_map){0};
}

/* What one list was told was of all that there are now. */
static bool grow(map_part *p, map_layer *l, int n_lists) {
    size_t n = (size_t)p->n_tokens;
    if (l->n_lists > 1) return true;
    void *count = realloc(l->count, (size_t)n_lists * n * sizeof *l->count);
    if (!count) return false;
    l->count = count;
    if (!l->n_lists) memset(l->count, 0, n * sizeof *l->count);
    for (int i = 1; i < n_lists; i++) memcpy(l->count + (size_t)i * n, l->count, n * sizeof *l->count);
    l->n_lists = n_lists;
    return true;
}

void attention_map_read(void *ctx, int layer, int list, int n_lists, const int32_t *tokens, int64_t n,
                        int64_t n_tokens) {
    map_part *p = ctx;
    if (layer < 0 || layer >= p->n_layers || list >= n_lists || n_tokens <= 0) return;
    if (!p->n_tokens) p->n_tokens = n_tokens;
    map_layer *l = &p->layers[layer];
    if (l->n_lists < n_lists && !grow(p, l, n_lists)) {
        p->no_memory = true;
        return;
    }
    if (l->n_lists != n_lists && n_lists != 1)
        return; /* a layer has the same lists in every step, or one for all */
    l->times += list == 0;
    for (int to = list; to < (n_lists == 1 ? l->n_lists : list + 1); to++)
        for (int64_t i = 0; i < n; i++) {
            int64_t token = tokens ? tokens[i] : i;
            if (token >= 0 && token < n_tokens && token < p->n_tokens) l->count[to * p->n_tokens + token]++;
        }
}

void attention_map_kept(void *ctx, int layer, const int32_t *kept, int64_t n_kept, int64_t n_tokens) {
    attention_map_read(ctx, layer, 0, 1, kept, n_kept, n_tokens);
}

/* ---------------------------------------------------------------- columns */

/* A frame, a picture, or text between two: tokens [first, end). */
typedef struct column {
    int64_t first, end;
    bool is_text;
} column;

static bool same_place(const sac_token_place *a, const sac_token_place *b) {
    return a->tile < 0 ? b->tile < 0 : a->tile == b->tile && a->media == b->media;
}

/* Columns of the prompt, left to right; returns how many. */
static size_t find_columns(const sac_token_place *places, int64_t n, column *out) {
    size_t k = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!i || !same_place(&places[i - 1], &places[i])) out[k++] = (column){i, i, places[i].tile < 0};
        out[k - 1].end = i + 1;
    }
    return k;
}

/* Share of the column's tokens that the list had, over all times; a layer that has told nothing had all. */
static double share_of(const map_part *p, int layer, int list, int64_t first, int64_t end) {
    const map_layer *l = &p->layers[layer];
    double sum = 0;
    if (!l->count) return 1;
    for (int64_t i = first; i < end && i < p->n_tokens; i++) sum += l->count[list * p->n_tokens + i];
    return sum / ((double)(end - first) * (double)l->times);
}

static double layer_share(const map_part *p, int layer, int64_t n) {
    int n_lists = p->layers[layer].count ? p->layers[layer].n_lists : 1;
    double sum = 0;
    for (int i = 0; i < n_lists; i++) sum += share_of(p, layer, i, 0, n);
    return sum / n_lists;
}

static double mean_share(const map_part *p, int64_t n) {
    double sum = 0;
    for (int i = 0; i < p->n_layers; i++) sum += layer_share(p, i, n);
    return sum / p->n_layers;
}

/* ---------------------------------------------------------------- drawing */

enum { WIDTH = 760, LEFT = 64, RIGHT = 64, TOP = 64, GAP = 3, HEAD = 26, FOOT = 58, LEVELS = 10 };

typedef struct page {
    const svg *s;
    const column *columns;
    size_t n_columns;
    int64_t n_prompt; /* tokens */
    int n_heads;
} page;

static int lists_of(const map_part *p) {
    int most = 1;
    for (int i = 0; i < p->n_layers; i++)
        if (p->layers[i].n_lists > most) most = p->layers[i].n_lists;
    return most;
}

static double line_height(const map_part *p) {
    int n = lists_of(p);
    return n == 1 ? 14 : n == 2 ? 8 : n <= 8 ? 5 : 3;
}

static double layer_height(const map_part *p) {
    return line_height(p) * lists_of(p);
}

static double part_height(const map_part *p) {
    return HEAD + p->n_layers * (layer_height(p) + GAP) + FOOT;
}

/* Text has less room than a frame: between frames it is a word or two. */
static double weight_of(const page *g, size_t from, size_t end) {
    double sum = 0;
    for (size_t i = from; i < end; i++) sum += g->columns[i].is_text ? 0.4 : 1;
    return sum;
}

static double left_of(const page *g, size_t at) {
    return LEFT + (double)(WIDTH - LEFT - RIGHT) * weight_of(g, 0, at) / weight_of(g, 0, g->n_columns);
}

/* Of a tenth of the scale: all cells, each a piece of a wide line; neighbours in one. */
static void put_level(const page *g, const map_part *p, double top, int level) {
    bool any = false;
    for (int layer = 0; layer < p->n_layers; layer++) {
        int n_lists = p->layers[layer].count ? p->layers[layer].n_lists : 1;
        double height = layer_height(p) / n_lists;
        for (int list = 0; list < n_lists; list++) {
            double y = top + layer * (layer_height(p) + GAP) + height * list + height / 2;
            for (size_t k = 0, end; k < g->n_columns; k = end) {
                for (end = k; end < g->n_columns; end++) {
                    double share = share_of(p, layer, list, g->columns[end].first, g->columns[end].end);
                    int its = share > 0 ? (int)fmax(1, round(LEVELS * share)) : 0;
                    if (its != level) break;
                }
                if (end == k) {
                    end++;
                    continue;
                }
                if (!any) fprintf(g->s->f, "<path stroke-opacity=\"%.1f\" d=\"", (double)level / LEVELS);
                any = true;
                fprintf(g->s->f, "M%.0f %.3gh%.0f", left_of(g, k), y, left_of(g, end) - left_of(g, k));
            }
        }
    }
    if (any) fputs("\"/>\n", g->s->f);
}

static void put_cells(const page *g, const map_part *p, double top) {
    double bottom = top + p->n_layers * (layer_height(p) + GAP) - GAP;
    fprintf(g->s->f, "<g fill=\"none\" stroke=\"#1f4e79\" stroke-width=\"%.3g\">\n",
            line_height(p) - (lists_of(p) > 1));
    for (int level = 1; level <= LEVELS; level++) put_level(g, p, top, level);
    fputs("</g>\n", g->s->f);
    svg_line(g->s, LEFT - 2, top, LEFT - 2, bottom, PLOT_GREY, 1);
    for (int layer = 0; layer < p->n_layers; layer++) {
        char text[24];
        double y = top + layer * (layer_height(p) + GAP) + layer_height(p) / 2 + 4;
        snprintf(text, sizeof text, "%d", layer);
        svg_text(g->s, LEFT - 8, y, 11, SVG_END, text);
        snprintf(text, sizeof text, "%.0f %%", 100 * layer_share(p, layer, g->n_prompt));
        svg_text(g->s, WIDTH - RIGHT + 8, y, 11, SVG_START, text);
    }
}

/* Numbers of frames from 1, as many as have room; where there is text, what it is. */
static void put_x_axis(const page *g, double y) {
    size_t n_frames = 0, number = 0;
    for (size_t k = 0; k < g->n_columns; k++) n_frames += !g->columns[k].is_text;
    size_t step = n_frames > 16 ? (n_frames + 15) / 16 : 1;
    for (size_t k = 0; k < g->n_columns; k++) {
        double x = (left_of(g, k) + left_of(g, k + 1)) / 2;
        char text[24];
        if (!g->columns[k].is_text) number++;
        snprintf(text, sizeof text, "%zu", number);
        bool at_end = k == 0 || k + 1 == g->n_columns;
        if (g->columns[k].is_text && at_end)
            svg_text(g->s, x, y + 12, 9, SVG_MIDDLE, "text");
        else if (!g->columns[k].is_text && number % step == 0)
            svg_text(g->s, x, y + 12, 10, SVG_MIDDLE, text);
    }
    svg_text(g->s, WIDTH / 2.0, y + 30, 11, SVG_MIDDLE, "frames or pictures; narrow: text");
}

static void put_scale(const page *g, double y) {
    svg_text(g->s, WIDTH - RIGHT - 148, y, 11, SVG_END, "tokens kept:");
    for (int k = 0; k < 5; k++) {
        char text[8];
        double x = WIDTH - RIGHT - 140 + 40 * k;
        fprintf(g->s->f,
                "<rect x=\"%.0f\" y=\"%.0f\" width=\"10\" height=\"10\" fill=\"#1f4e79\" "
                "fill-opacity=\"%.1f\"/>\n",
                x, y - 9, 0.2 * (k + 1));
        snprintf(text, sizeof text, "%d%%", 20 * (k + 1));
        svg_text(g->s, x + 12, y, 10, SVG_START, text);
    }
}

static double put_part(const page *g, const map_part *p, const char *what, double y) {
    char heading[200], lines[80] = "all heads alike";
    int n = lists_of(p);
    if (n > 1)
        snprintf(lines, sizeof lines, "lines of a layer: its %d %s heads", n,
                 n == g->n_heads ? "query" : "key-value");
    snprintf(heading, sizeof heading, "%s: %.1f %% of the prompt's tokens; %s", what,
             100 * mean_share(p, g->n_prompt), lines);
    svg_text(g->s, LEFT, y + 12, 13, SVG_START, heading);
    svg_text(g->s, LEFT - 8, y + 12, 11, SVG_END, "layer");
    put_cells(g, p, y + HEAD);
    double bottom = y + HEAD + p->n_layers * (layer_height(p) + GAP);
    put_x_axis(g, bottom);
    return bottom + FOOT;
}

/* Does it leave anything of the prompt out? */
static bool is_shown(const map_part *p, int64_t n_prompt) {
    return mean_share(p, n_prompt) < 1 - 1e-9;
}

/* What is read is told in every step, but for steps on a GPU and for rows that are gone. */
static const char *say_read(const map_part *steps, int64_t n_prompt, char out[64]) {
    snprintf(out, 64, "%.1f %% read", 100 * mean_share(steps, n_prompt));
    return steps->n_tokens ? out : "what was read not known";
}

static sac_status draw(page *g, const attention_map *m, const char *title, const char *line, const char *path,
                       sac_error *err) {
    bool prompt = is_shown(&m->prompt, g->n_prompt), steps = is_shown(&m->steps, g->n_prompt);
    double height = TOP + (prompt ? part_height(&m->prompt) : 0) + (steps ? part_height(&m->steps) : 0) + 20,
           y = TOP;
    char text[1200], read[64];
    svg s;
    if (!prompt && !steps)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "the methods left out no tokens to show: give one that does, e.g. --prefill "
                        "zipvl:min=0 or --decode "
                        "twilight");
    SAC_TRY(svg_open(&s, path, WIDTH, height, err));
    g->s = &s;
    snprintf(
        text, sizeof text,
        "%.500s. A row for each layer and head, a column for each frame; the darker a cell, the more of the "
        "frame's tokens. "
        "Mean over layers and heads: %.1f %% kept while the prompt was read, %s while answering.",
        line, 100 * mean_share(&m->prompt, g->n_prompt), say_read(&m->steps, g->n_prompt, read));
    svg_describe(&s, "What each layer and head kept of a video", text);
    svg_text(&s, LEFT, 24, 15, SVG_START, title);
    svg_text(&s, LEFT, 42, 10, SVG_START, line);
    if (prompt) y = put_part(g, &m->prompt, "Kept while the prompt was read", y);
    if (steps) y = put_part(g, &m->steps, "Read while answering, mean of the steps", y);
    put_scale(g, y);
    return svg_close(&s, err);
}

sac_status attention_map_write(const attention_map *m, sac_session *s, int64_t n_prompt, int n_heads,
                               const char *title, const char *line, const char *path, sac_error *err) {
    if (m->prompt.no_memory || m->steps.no_memory) return sac_fail_no_memory(err);
    int64_t n = sac_session_token_places(s, NULL, 0); /* the answer's tokens, too */
    if (n > n_prompt) n = n_prompt;
    sac_token_place *places = calloc((size_t)n + 1, sizeof *places);
    column *columns = calloc((size_t)n + 1, sizeof *columns);
    sac_status st = places && columns ? SAC_OK : sac_fail_no_memory(err);
    if (st == SAC_OK) {
        sac_session_token_places(s, places, n);
        page g = {.columns = columns,
                  .n_columns = find_columns(places, n, columns),
                  .n_prompt = n,
                  .n_heads = n_heads};
        st = draw(&g, m, title, line, path, err);
    }
    free(places);
    free(columns);
    return st;
}
