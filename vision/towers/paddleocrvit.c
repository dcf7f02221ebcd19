/* paddleocrvit.c - the tower of PaddleOCR-VL (arXiv:2510.14528, sec. 2.1), on the way of Qwen2-VL's (qwen2vl.h): SigLIP's layers, with
 * queries, keys and values apart and biases everywhere, over pictures of any size; embedded patches have learned positions, which are
 * those of a square table resampled linearly so that its cells cover the picture's; and there is a norm behind the last layer. */
#include "qwen2vl.h"

static const sac_weight_slot slots[] = {
    SAC_QWEN2VL_PART(patch_embed, true), SAC_QWEN2VL_PART(patch_bias, false),   SAC_QWEN2VL_PART(positions, false),
    SAC_QWEN2VL_PART(final_norm, false), SAC_QWEN2VL_PART(final_norm_b, false), SAC_QWEN2VL_LAYER(norm1_w, false),
    SAC_QWEN2VL_LAYER(norm1_b, false),   SAC_QWEN2VL_LAYER(q, true),            SAC_QWEN2VL_LAYER(k, true),
    SAC_QWEN2VL_LAYER(v, true),          SAC_QWEN2VL_LAYER(q_bias, false),      SAC_QWEN2VL_LAYER(k_bias, false),
    SAC_QWEN2VL_LAYER(v_bias, false),    SAC_QWEN2VL_LAYER(o, true),            SAC_QWEN2VL_LAYER(o_bias, false),
    SAC_QWEN2VL_LAYER(norm2_w, false),   SAC_QWEN2VL_LAYER(norm2_b, false),     SAC_QWEN2VL_LAYER(up, true),
    SAC_QWEN2VL_LAYER(up_bias, false),   SAC_QWEN2VL_LAYER(down, true),         SAC_QWEN2VL_LAYER(down_bias, false),
};

const sac_tower_kind sac_tower_paddleocrvit = {.name = "paddleocrvit",
                                               .model_type = "paddleocr_vl_vision",
                                               .slots = slots,
                                               .n_slots = (int)SAC_COUNT(slots),
                                               SAC_QWEN2VL_KIND};
