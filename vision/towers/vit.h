/* vit.h - the CLIP vision tower (Radford et al. 2021; transformers' CLIPVisionModel): pictures to features of
 * patches.
 *
 *   h = [class; patches w] + positions;  h = pre_ln(h)
 *   for each layer: h += o(attention(ln1(h)));  h += fc2(act(fc1(ln2(h))))
 *   features = hidden states of the chosen layers (side by side when several), class token dropped or kept */
#ifndef SAC_VISION_VIT_H
#define SAC_VISION_VIT_H

#include "ops.h"

#define SAC_VIT_MAX_FEATURE_LAYERS 8

typedef struct sac_vit_config {
    int image_size, patch_size, hidden, n_layers, n_heads, intermediate;
    float layer_norm_eps;
    sac_activation act;
    int n_feature_layers;
    int feature_layer[SAC_VIT_MAX_FEATURE_LAYERS]; /* hidden state in [0, n_layers]: 0 = after pre_ln, i =
                                                      after layer i */
    bool keep_class;                               /* vision_feature_select_strategy "full" */
} sac_vit_config;

typedef struct sac_vit_layer {
    const float *ln1_w, *ln1_b, *ln2_w, *ln2_b;
    sac_tensor q, k, v, o; /* [hidden][hidden] */
    const float *q_bias, *k_bias, *v_bias, *o_bias;
    sac_tensor fc1, fc2; /* [intermediate][hidden], [hidden][intermediate] */
    const float *fc1_bias, *fc2_bias;
    sac_tensor qkv; /* [3 * hidden][hidden], the three as one with qkv_bias; no data: not one */
    const float *qkv_bias;
} sac_vit_layer;

typedef struct sac_vit {
    sac_vit_config config;
    sac_tensor
        patch_embed; /* [hidden][3 * patch * patch]; a device's has zeros behind, so that rows are aligned */
    const float *class_embed, *pos_embed; /* [hidden], [1 + patches][hidden] */
    const float *pre_ln_w, *pre_ln_b;
    sac_vit_layer *layers;
    const void *start_rows; /* of a tower on a device: [1 + patches][hidden] of the matrices' type, positions
                               with the class added to the first; NULL on the CPU */
} sac_vit;

#define SAC_VIT_ALIGN 8 /* elements that a row of patches is padded to on a device */

static inline int sac_vit_grid(const sac_vit_config *c) {
    return c->image_size / c->patch_size;
}
/* Feature rows a tile, and their width. */
static inline int sac_vit_rows(const sac_vit_config *c) {
    return sac_vit_grid(c) * sac_vit_grid(c) + (c->keep_class ? 1 : 0);
}
static inline int sac_vit_cols(const sac_vit_config *c) {
    return c->n_feature_layers * c->hidden;
}

/* Activations for up to max_tiles tiles at a time. */
typedef struct sac_vit_state {
    int max_tiles;
    bool fast;       /* bf16 products allowed */
    sac_dtype dtype; /* of the activations */
    void *patches, *h, *norm, *qkv, *mlp;
    /* On a device, there; NULL on the CPU: [max_tiles * tokens] which start row a row begins as, [max_tiles *
     * kept] which row a feature comes from. */
    int32_t *start_of, *kept_of;
    /* For who asks (otherwise NULL): attention that the class token of each tile gives, summed over heads, in
     * the first layer and in the last that runs; [n_tiles][1 + patches], its own share first. */
    float *class_first, *class_last;
} sac_vit_state;

size_t sac_vit_state_bytes(const sac_vit_config *c, int max_tiles);
sac_status sac_vit_state_init(sac_vit_state *s, const sac_vit_config *c, int max_tiles, sac_arena *arena,
                              sac_error *err);
/* The same out of a device's memory, or measuring: then nothing is written. Not with class_first. */
sac_status sac_vit_state_init_device(sac_vit_state *s, const sac_vit_config *c, int max_tiles, sac_dtype t,
                                     const sac_stream *stream, sac_arena *arena, sac_error *err);

/* features [n_tiles * sac_vit_rows][sac_vit_cols] of n_tiles <= max_tiles tiles of uint8 RGB
 * [n_tiles][size][size][3]. */
sac_status sac_vit_forward(const sac_vit *v, sac_vit_state *s, const sac_ops *ops, const sac_stream *stream,
                           const uint8_t *tiles, int n_tiles, const float mean[3], const float std[3],
                           sac_mat features);

/* Layers that run: those after the last feature are not needed. */
int sac_vit_depth(const sac_vit_config *c);
/* The same in two steps, so that some tiles are through before others: all of them up to and with layer
 * n_layers <= depth, then stretch by stretch the rest of the layers for tiles [first_tile, first_tile +
 * n_tiles). `features` is that of all tiles both times; a stretch leaves the rows of others alone. Not with
 * class_first. */
sac_status sac_vit_begin(const sac_vit *v, sac_vit_state *s, const sac_ops *ops, const sac_stream *stream,
                         const uint8_t *tiles, int n_tiles, const float mean[3], const float std[3],
                         int n_layers, sac_mat features);
sac_status sac_vit_end(const sac_vit *v, sac_vit_state *s, const sac_ops *ops, const sac_stream *stream,
                       int first_tile, int n_tiles, int n_layers, sac_mat features);

#endif
