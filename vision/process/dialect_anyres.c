/* dialect_anyres.c - LLaVA-NeXT: the whole picture, then its tiles without padding. See dialect.h. */
#include "dialect.h"

static sac_status read(sac_processor_config *c, const sac_processor_model *model, const json_t *preprocessor,
                       sac_error *err) {
    json_t *usual = json_pack("[[i, i], [i, i], [i, i], [i, i], [i, i]]", 336, 672, 672, 336, 672, 672, 1008, 336, 336, 1008);
    if (!usual) return sac_fail(err, SAC_NO_MEMORY, "no memory for \"image_grid_pinpoints\"");
    sac_status st = sac_pinpoints_read(c->own, c, preprocessor, model->config, usual, true, err);
    json_decref(usual);
    return st;
}

static sac_status plan(const sac_processor_config *c, sac_visual_plan *p, sac_error *err) {
    SAC_TRY(sac_tile_plan(c, 1, p, err));
    if (p->is_video_frame) return SAC_OK;
    sac_pinpoints_plan(c->own, c->tile_size, p);
    p->n_tiles++;
    sac_pinpoints_unpad(p);
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
    if (p->is_video_frame) {
        sac_tile_layout(p, source);
        return;
    }
    for (; n < p->tokens_per_tile; n++) source[n] = n; /* the picture as a whole */
    for (int y = p->keep_y; y < p->keep_y + p->keep_h; y++) {
        for (int x = p->keep_x; x < p->keep_x + p->keep_w; x++) source[n++] = sac_pinpoints_row(p, 1, x, y);
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
