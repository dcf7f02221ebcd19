/* siglip.c - the SigLIP vision tower (Zhai et al. 2023, arXiv:2303.15343; transformers' SiglipVisionModel).
 *
 *   h = patches w + bias + positions
 *   for each layer: h += o(attention(ln1(h)));  h += fc2(act(fc1(ln2(h))))
 *   features = hidden states of the chosen layers
 *
 * It is CLIP's tower without the class token and the norm before the layers, so their files are shared. */
#include "clip.h"

static const sac_weight_slot slots[] = {
    SAC_CLIP_PART(patch_embed, true),
    SAC_CLIP_PART(patch_bias, false),
    SAC_CLIP_PART(pos_embed, false),
    SAC_CLIP_LAYER_SLOTS,
};

const sac_tower_kind sac_tower_siglip = {
    .name = "siglip",
    .model_type = "siglip_vision_model",
    .slots = slots,
    .n_slots = (int)SAC_COUNT(slots),
    .weights_bytes = sizeof(sac_clip_weights),
    .layer_bytes = sizeof(sac_clip_layer),
    .plan = sac_clip_plan,
    .symbols = sac_clip_symbols,
    .place = sac_clip_place,
    .take = sac_clip_take,
    .encode = sac_clip_encode,
};
