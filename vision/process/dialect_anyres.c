/* dialect_anyres.c - LLaVA-NeXT: the whole picture, then its tiles without padding. See dialect.h. */
#include "dialect.h"

#include <math.h>

static sac_status read(sac_processor_config *c, const sac_processor_model *model, const json_t *preprocessor,
                       sac_error *err) {
    const json_t *config = model->config;
    return sac_pinpoints_read(c->own, c, preprocessor, config, true, err);
}

/* Python's int(round(x, 7)): down, unless the next integer is nearer than half of the seventh decimal. */
static int round_7_floor(double x) {
    double down = floor(x);
    return (int)(down + 1 - x < 0.5e-7 ? down + 1 : down);
}

/* unpad_image: of the token grid, what lies over the picture. */
static void unpad(sac_visual_plan *p) {
    int w = p->tiles_w * p->tokens.w, h = p->tiles_h * p->tokens.h, padding;
    p->keep_w = w;
    p->keep_h = h;
    if ((double)p->width / p->height > (double)w / h) {
        padding = (h - round_7_floor(p->height * ((double)w / p->width))) / 2;
        p->keep_y = padding;
        p->keep_h = h - 2 * padding;
    } else {
        padding = (w - round_7_floor(p->width * ((double)h / p->height))) / 2;
        p->keep_x = padding;
        p->keep_w = w - 2 * padding;
    }
}

static sac_status plan(const sac_processor_config *c, sac_visual_plan *p, sac_error *err) {
    SAC_TRY(sac_tile_plan(c, 1, p, err));
    if (p->is_video_frame) return SAC_OK;
    sac_pinpoints_plan(c->own, c->tile_size, p);
    p->n_tiles++;
    unpad(p);
    p->n_tokens = p->tokens_per_tile + (int64_t)p->keep_h * (p->keep_w + 1);
    return SAC_OK;
}

static sac_status cut(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p,
                      uint8_t *rows, sac_error *err) {
    if (p->is_video_frame) return sac_tile_rows(c, image, rows, err);
    SAC_TRY(sac_tile_squeeze(c, image, rows, err));
    return sac_pinpoints_cut(c, image, p, c->filter, rows + sac_visual_bytes(p, 1), err);
}

static void layout(const sac_visual_plan *p, int32_t *source) {
    int32_t n = 0;
    int tile_w = p->tokens.w, tile_h = p->tokens.h;
    if (p->is_video_frame) {
        sac_tile_layout(p, source);
        return;
    }
    for (; n < p->tokens_per_tile; n++) source[n] = n; /* the picture as a whole */
    for (int y = p->keep_y; y < p->keep_y + p->keep_h; y++) {
        for (int x = p->keep_x; x < p->keep_x + p->keep_w; x++) {
            int tile = 1 + y / tile_h * p->tiles_w + x / tile_w;
            source[n++] = tile * p->tokens_per_tile + y % tile_h * tile_w + x % tile_w;
        }
        source[n++] = SAC_SOURCE_NEWLINE;
    }
}

static int most_tiles(const sac_processor_config *c) {
    return sac_pinpoints_most_tiles(c->own, c->tile_size) + 1; /* the whole picture is one more */
}

const sac_dialect sac_dialect_anyres = {.name = "anyres",
                                        .own_bytes = sizeof(sac_pinpoints),
                                        .read = read,
                                        .plan = plan,
                                        .cut = cut,
                                        .layout = layout,
                                        .most_tiles = most_tiles};
