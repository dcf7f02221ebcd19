/* clip.h - the CLIP vision tower (Radford et al. 2021; transformers' CLIPVisionModel): its weights and what its
 * files share with SigLIP's (siglip.c), which has no class token and no norm before the layers, and with InternViT's
 * (internvit.c), which scales what a layer adds; for tests too.
 *
 *   h = [class; patches w] + positions;  h = pre_ln(h)
 *   for each layer: h += o(attention(ln1(h)));  h += fc2(act(fc1(ln2(h))))
 *   features = hidden states of the chosen layers (side by side when several), class token dropped or kept
 *
 * It takes square pictures of one size: there is a learned position for every patch. A segment is a picture. Where its
 * configuration has a merge_size, patches go in and features come out in squares of so many a side. */
#ifndef SAC_VISION_CLIP_H
#define SAC_VISION_CLIP_H

#include "tower.h"

typedef struct sac_clip_layer {
    const float *ln1_w, *ln1_b, *ln2_w, *ln2_b;
    sac_weight q, k, v, o; /* [hidden][hidden] */
    const float *q_bias, *k_bias, *v_bias, *o_bias;
    sac_weight fc1, fc2; /* [intermediate][hidden], [hidden][intermediate] */
    const float *fc1_bias, *fc2_bias;
    sac_weight qkv; /* [3 * hidden][hidden], the three as one with qkv_bias; no data: not one */
    const float *qkv_bias;
    const float *q_norm, *k_norm; /* [hidden], of whole rows; NULL: none */
    const float *scale1, *scale2; /* [hidden], of what attention and what fc2 add; NULL: 1 */
} sac_clip_layer;

typedef struct sac_clip_weights {
    /* [hidden][3 * patch * patch]; on a GPU with zeros behind each row, so that rows are aligned */
    sac_weight patch_embed;
    const float *class_embed, *pos_embed; /* [hidden]; [class and patches][hidden] */
    const float *pre_ln_w, *pre_ln_b;     /* NULL: rows are not normalised before the layers */
    const float *patch_bias;              /* [hidden], or NULL */
    const float *final_w, *final_b;       /* of the norm behind the last layer, or NULL */
    const void *
        start_rows; /* of a tower on a device: [class and patches][hidden] of the activations' type, positions with
                               the class or the bias added; NULL on the CPU */
} sac_clip_weights;

#define SAC_CLIP_ALIGN 8 /* elements that a row of patches is padded to on a device */

/* Buffers of the state. The last two are on a device only: [max_segments * tokens] which start row a row begins
 * as, [max_segments * kept] which row a feature comes from. */
enum {
    SAC_CLIP_PATCHES,
    SAC_CLIP_H,
    SAC_CLIP_NORM,
    SAC_CLIP_QKV,
    SAC_CLIP_MLP,
    SAC_CLIP_START,
    SAC_CLIP_KEPT
};

static inline const sac_clip_weights *sac_clip_weights_of(const sac_tower *t) {
    return t->weights;
}
static inline const sac_clip_layer *sac_clip_layer_of(const sac_tower *t, int i) {
    return (const sac_clip_layer *)t->layers + i;
}

static inline int sac_clip_grid(const sac_tower_config *c) {
    return c->image_size / c->patch_size;
}
static inline int sac_clip_patches(const sac_tower_config *c) {
    return sac_clip_grid(c) * sac_clip_grid(c);
}
/* Rows of a picture inside the tower: the class token, where the tower has one, and the patches. */
static inline int sac_clip_tokens(const sac_tower_config *c) {
    return sac_clip_patches(c) + (c->kind->has_class ? 1 : 0);
}
/* Those of them that come out. */
static inline int sac_clip_kept(const sac_tower_config *c) {
    return sac_clip_patches(c) + (c->keep_class ? 1 : 0);
}
/* Row of pos_embed of a row of a picture: patches stand in squares of merge_size a side, positions line by line. */
static inline int sac_clip_position(const sac_tower_config *c, int row) {
    int m = c->merge_size, squares = m > 1 ? sac_clip_grid(c) / m : 0, first = c->kind->has_class ? 1 : 0;
    if (c->kind->position) return c->kind->position(c, row);
    if (squares == 0 || row < first) return row;
    int i = row - first, square = i / (m * m), y = square / squares * m + i / m % m,
        x = square % squares * m + i % m;
    return first + y * squares * m + x;
}
static inline int64_t sac_clip_aligned_cols(const sac_tower_config *c) {
    return (sac_tower_patch_bytes(c) + SAC_CLIP_ALIGN - 1) / SAC_CLIP_ALIGN * SAC_CLIP_ALIGN;
}

/* clip_state.c, clip_place.c */
sac_status sac_clip_take(sac_tower_state *s, const sac_tower_config *c, const sac_stream *stream,
                         sac_arena *arena, sac_arena *host, sac_error *err);
sac_status sac_clip_place(sac_tower *t, sac_placer *p);
sac_status sac_clip_place_layer(sac_placer *p, const sac_tower_config *c, sac_clip_layer *l);
/* clip.c */
sac_status sac_clip_plan(const sac_tower_config *c, int width, int height, int frames, sac_tower_plan *p,
                         sac_error *err);
int sac_clip_symbols(const sac_tower_config *c, sac_shape_symbol out[SAC_TOWER_MAX_SYMBOLS]);
sac_status sac_clip_encode(const sac_tower_run *call, const sac_patch_rows *in, sac_mat features);
/* The halves of a layer over the first rows of the state's buffers; attention within the n_segments segments that
 * state->segment_start has. */
sac_status sac_clip_attend(const sac_tower_run *call, const sac_clip_layer *w, int64_t rows, int n_segments);
sac_status sac_clip_feed_forward(const sac_tower_run *call, const sac_clip_layer *w, int64_t rows);

/* The bucket of n equal ones that a share of a side falls into, by f32 numbers as transformers has them (idefics3.c). */
int sac_clip_bucket(float share, int n);

/* The slots of a layer, of the tensors that clip.yaml, siglip.yaml and internvit.yaml name alike. */
#define SAC_CLIP_PART(field, matrix)                                                                         \
    { "tower." #field, false, matrix, offsetof(sac_clip_weights, field) }
#define SAC_CLIP_LAYER(field, matrix)                                                                        \
    { "tower.layer." #field, true, matrix, offsetof(sac_clip_layer, field) }
#define SAC_CLIP_LAYER_SLOTS                                                                                 \
    SAC_CLIP_LAYER(ln1_w, false), SAC_CLIP_LAYER(ln1_b, false), SAC_CLIP_LAYER(q, true),                     \
        SAC_CLIP_LAYER(k, true), SAC_CLIP_LAYER(v, true), SAC_CLIP_LAYER(o, true),                           \
        SAC_CLIP_LAYER(q_bias, false), SAC_CLIP_LAYER(k_bias, false), SAC_CLIP_LAYER(v_bias, false),         \
        SAC_CLIP_LAYER(o_bias, false), SAC_CLIP_LAYER(ln2_w, false), SAC_CLIP_LAYER(ln2_b, false),           \
        SAC_CLIP_LAYER(fc1, true), SAC_CLIP_LAYER(fc1_bias, false), SAC_CLIP_LAYER(fc2, true),               \
        SAC_CLIP_LAYER(fc2_bias, false)

#endif
