/* moonvit.c - MoonViT, the tower of Kimi-VL (arXiv:2504.07491, sec. 2.1), on the way of Qwen2-VL's (qwen2vl.h): layer norms and
 * two-layer MLPs; embedded patches have a bias and learned positions, which are those of a square table resampled by cubics;
 * neighbouring channels of a head are turned, by turns by a patch's column and by its row; and there is a norm behind the last
 * layer. */
#include "qwen2vl.h"

static const sac_weight_slot slots[] = {
    SAC_QWEN2VL_PART(patch_embed, true), SAC_QWEN2VL_PART(patch_bias, false),   SAC_QWEN2VL_PART(positions, false),
    SAC_QWEN2VL_PART(final_norm, false), SAC_QWEN2VL_PART(final_norm_b, false), SAC_QWEN2VL_LAYER(norm1_w, false),
    SAC_QWEN2VL_LAYER(norm1_b, false),   SAC_QWEN2VL_LAYER(qkv, true),          SAC_QWEN2VL_LAYER(qkv_bias, false),
    SAC_QWEN2VL_LAYER(o, true),          SAC_QWEN2VL_LAYER(o_bias, false),      SAC_QWEN2VL_LAYER(norm2_w, false),
    SAC_QWEN2VL_LAYER(norm2_b, false),   SAC_QWEN2VL_LAYER(up, true),           SAC_QWEN2VL_LAYER(up_bias, false),
    SAC_QWEN2VL_LAYER(down, true),       SAC_QWEN2VL_LAYER(down_bias, false),
};

const sac_tower_kind sac_tower_moonvit = {.name = "moonvit",
                                          .model_type = "moonvit",
                                          .slots = slots,
                                          .n_slots = (int)SAC_COUNT(slots),
                                          .turns_neighbours = true,
                                          SAC_QWEN2VL_KIND};
