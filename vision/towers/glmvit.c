/* glmvit.c - the tower of GLM-4.1V and GLM-4.6V (arXiv:2507.01006, sec. 2), on the way of Qwen2-VL's (qwen2vl.h): RMS norms
 * and gated MLPs without biases; embedded patches have a norm of their own, then learned positions, which are those of a
 * square table resampled by cubics so that its cells cover the picture's; and there is a norm behind the last layer. */
#include "qwen2vl.h"

static const sac_weight_slot slots[] = {
    SAC_QWEN2VL_PART(patch_embed, true), SAC_QWEN2VL_PART(patch_bias, false),
    SAC_QWEN2VL_PART(patch_norm, false), SAC_QWEN2VL_PART(positions, false),
    SAC_QWEN2VL_PART(final_norm, false), SAC_QWEN2VL_LAYER(norm1_w, false),
    SAC_QWEN2VL_LAYER(qkv, true),        SAC_QWEN2VL_LAYER(qkv_bias, false),
    SAC_QWEN2VL_LAYER(o, true),          SAC_QWEN2VL_LAYER(norm2_w, false),
    SAC_QWEN2VL_LAYER(gate, true),       SAC_QWEN2VL_LAYER(up, true),
    SAC_QWEN2VL_LAYER(down, true),
};

const sac_tower_kind sac_tower_glmvit = {.name = "glmvit",
                                         .model_type = "glm4v_vision",
                                         .slots = slots,
                                         .n_slots = (int)SAC_COUNT(slots),
                                         SAC_QWEN2VL_KIND};
