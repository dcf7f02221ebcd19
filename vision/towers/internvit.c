/* internvit.c - the InternViT vision tower (Chen et al. 2023, arXiv:2312.14238; transformers' InternVLVisionModel).
 *
 *   h = [class; patches w + bias] + positions
 *   for each layer: h += scale1 * o(attention(norm1(h)));  h += scale2 * fc2(act(fc1(norm2(h))))
 *   features = the hidden state of the chosen layer (normalised where the checkpoint has a norm behind the last one),
 *              without the class token, in squares of merge_size a side
 *
 * It is CLIP's tower with a scale for every channel that a layer adds and without the norm before the layers, so their
 * files are shared. InternViT-6B has RMS norms, and a norm of whole queries and keys. */
#include "clip.h"

static const sac_weight_slot slots[] = {
    SAC_CLIP_PART(patch_embed, true),
    SAC_CLIP_PART(patch_bias, false),
    SAC_CLIP_PART(class_embed, false),
    SAC_CLIP_PART(pos_embed, false),
    SAC_CLIP_PART(final_w, false),
    SAC_CLIP_PART(final_b, false),
    SAC_CLIP_LAYER_SLOTS,
    SAC_CLIP_LAYER(q_norm, false),
    SAC_CLIP_LAYER(k_norm, false),
    SAC_CLIP_LAYER(scale1, false),
    SAC_CLIP_LAYER(scale2, false),
};

const sac_tower_kind sac_tower_internvit = {
    .name = "internvit",
    .model_type = "internvl_vision",
    .slots = slots,
    .n_slots = (int)SAC_COUNT(slots),
    .weights_bytes = sizeof(sac_clip_weights),
    .layer_bytes = sizeof(sac_clip_layer),
    .has_class = true,
    .plan = sac_clip_plan,
    .symbols = sac_clip_symbols,
    .place = sac_clip_place,
    .take = sac_clip_take,
    .encode = sac_clip_encode,
};
