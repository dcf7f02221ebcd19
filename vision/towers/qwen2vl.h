/* qwen2vl.h - the towers of Qwen2-VL (Wang et al., arXiv:2409.12191, sec. 2.1), Qwen2.5-VL (Bai et al.,
 * arXiv:2502.13923, sec. 2.1), Qwen3-VL (arXiv:2511.21631, sec. 2) and Pixtral (pixtral.c): their weights and what their
 * files share; for tests too.
 *
 *   h = patches w                          a patch is that of two frames, or of a picture twice
 *   for each layer: h += proj(attention(rope(qkv(norm1(h)))));  h += mlp(norm2(h))
 *   features = h
 *
 * A picture may have any size. Positions are rotations of queries and keys alone: the first half of a head's pairs
 * turns by the patch's row, the second by its column. A segment is a picture, or a step of time of a video.
 * Qwen2-VL has layer norms and a two-layer MLP; Qwen2.5-VL RMS norms, SwiGLU, and in most layers attention within
 * windows of window_size pixels: rows then stand window by window inside the tower. Qwen3-VL has layer norms and a
 * two-layer MLP again; embedded patches have a bias and learned positions, which are those of a square table of
 * table_side a side, resampled so that its corners are the picture's; and the features of several layers come out.
 * GLM-4.1V's (glmvit.c) goes the same way too, and Kimi-VL's (moonvit.c). Pixtral's has a norm before the layers, queries, keys
 * and values apart, and no biases. Where they are apart each head of queries and keys may have an RMS norm before it is turned. */
#ifndef SAC_VISION_QWEN2VL_H
#define SAC_VISION_QWEN2VL_H

#include "tower.h"

typedef struct sac_qwen2vl_layer {
    const float *norm1_w, *norm1_b, *norm2_w, *norm2_b; /* biases NULL: RMS norms */
    sac_weight qkv, o;  /* [3 * hidden][hidden], without data where they are apart; [hidden][hidden] */
    sac_weight q, k, v; /* [hidden][hidden] each */
    const float *qkv_bias, *o_bias;
    const float *q_bias, *k_bias, *v_bias; /* [hidden] each, of those that are apart; NULL where absent */
    const float *q_norm, *k_norm;          /* [head_dim], the same for every head; NULL where absent */
    sac_weight gate, up,
        down; /* [intermediate][hidden] twice, [hidden][intermediate]; gate without data: none */
    const float *gate_bias, *up_bias, *down_bias;
} sac_qwen2vl_layer;

typedef struct sac_qwen2vl_weights {
    sac_weight patch_embed;              /* [hidden][3 * frames * patch * patch] */
    const float *patch_bias, *positions; /* [hidden], [table_side^2][hidden]; NULL where absent */
    const float *patch_norm; /* RMS norm [hidden] of embedded patches, before positions */
    const float *final_norm, *final_norm_b; /* [hidden] of the features; without a bias an RMS norm */
    const float *pre_norm;               /* [hidden] of an RMS norm before the layers; NULL where absent */
} sac_qwen2vl_weights;

/* Buffers of the state. The tables: which patch a row shows, which row a patch is in, what rows are rotated by, and
 * which row of those rotations is a row's; as the host writes them and, on a GPU, again as it reads them. */
enum {
    SAC_QWEN2VL_PATCHES,
    SAC_QWEN2VL_H,
    SAC_QWEN2VL_NORM,
    SAC_QWEN2VL_QKV,
    SAC_QWEN2VL_UP,
    SAC_QWEN2VL_GATE,
    SAC_QWEN2VL_HOST_TABLES, /* struct sac_qwen2vl_tables */
    SAC_QWEN2VL_TABLES,      /* the same layout from .order on, on the device */
};

/* What follows from the grid of the tiles at hand: of n_tiles tiles of one grid. */
typedef struct sac_qwen2vl_tables {
    sac_grid grid;
    int n_tiles, n_windows;
    int32_t *order;    /* [max_rows] patch that a row shows */
    int32_t *back;     /* [max_rows] row that a patch is in */
    int32_t *rotation; /* [max_rows] row of cos_sin */
    float *cos_sin;    /* [max_rows][head_dim / 2][2] of the rows of a tile */
    /* [sac_qwen2vl_blends][rows of a tile][SAC_BLEND_TAPS]: rows of the table of positions, of a tile's patches, and how
     * much of each; NULL without a table. What several blends give is added up. */
    int32_t *taps;
    float *tap_weight;
    int32_t *window;   /* [max_rows / merge^2 + 1] first rows of the windows; the host's only */
} sac_qwen2vl_tables;

static inline int64_t sac_qwen2vl_max_rows(const sac_tower_state *s, const sac_tower_config *c) {
    return (int64_t)s->max_segments * c->merge_size * c->merge_size;
}

/* Blends that resample the table of positions. */
static inline int sac_qwen2vl_blends(const sac_tower_config *c) {
    return !c->table_side ? 0 : c->table_is_cubic ? 4 : 1;
}

/* What all kinds of these towers share. */
sac_status sac_qwen2vl_plan(const sac_tower_config *c, int width, int height, int frames, sac_tower_plan *p, sac_error *err);
int sac_qwen2vl_symbols(const sac_tower_config *c, sac_shape_symbol out[SAC_TOWER_MAX_SYMBOLS]);
sac_status sac_qwen2vl_place(sac_tower *t, sac_placer *p);
sac_status sac_qwen2vl_encode(const sac_tower_run *call, const sac_patch_rows *in, sac_mat features);
#define SAC_QWEN2VL_KIND                                                                                     \
    .weights_bytes = sizeof(sac_qwen2vl_weights), .layer_bytes = sizeof(sac_qwen2vl_layer),                  \
    .plan = sac_qwen2vl_plan, .features_apart = true, .symbols = sac_qwen2vl_symbols,                        \
    .place = sac_qwen2vl_place, .take = sac_qwen2vl_take, .encode = sac_qwen2vl_encode

#define SAC_QWEN2VL_PART(field, matrix)                                                                      \
    { "tower." #field, false, matrix, offsetof(sac_qwen2vl_weights, field) }
#define SAC_QWEN2VL_LAYER(field, matrix)                                                                     \
    { "tower.layer." #field, true, matrix, offsetof(sac_qwen2vl_layer, field) }

/* qwen2vl_tables.c */
sac_status sac_qwen2vl_take(sac_tower_state *s, const sac_tower_config *c, const sac_stream *stream,
                            sac_arena *arena, sac_arena *host, sac_error *err);
/* Fills the tables for n tiles of that grid, unless they hold them, and gives those that ops read. */
sac_status sac_qwen2vl_prepare(const sac_tower_run *r, sac_grid grid, int n_tiles, sac_qwen2vl_tables *where);

#endif
