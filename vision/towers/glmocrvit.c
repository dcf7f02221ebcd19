/* glmocrvit.c - the tower of GLM-OCR (zai-org/GLM-OCR; transformers' GlmOcrVisionModel), which is GLM-4.1V's (glmvit.c) without learned
 * positions and without a norm of embedded patches; each head of queries and keys has an RMS norm, and all products but the
 * merger's may have biases. */
#include "qwen2vl.h"

static const sac_weight_slot slots[] = {
    SAC_QWEN2VL_PART(patch_embed, true), SAC_QWEN2VL_PART(patch_bias, false), SAC_QWEN2VL_PART(final_norm, false),
    SAC_QWEN2VL_LAYER(norm1_w, false),   SAC_QWEN2VL_LAYER(q, true),          SAC_QWEN2VL_LAYER(k, true),
    SAC_QWEN2VL_LAYER(v, true),          SAC_QWEN2VL_LAYER(q_bias, false),    SAC_QWEN2VL_LAYER(k_bias, false),
    SAC_QWEN2VL_LAYER(v_bias, false),    SAC_QWEN2VL_LAYER(q_norm, false),    SAC_QWEN2VL_LAYER(k_norm, false),
    SAC_QWEN2VL_LAYER(o, true),          SAC_QWEN2VL_LAYER(o_bias, false),    SAC_QWEN2VL_LAYER(norm2_w, false),
    SAC_QWEN2VL_LAYER(gate, true),       SAC_QWEN2VL_LAYER(gate_bias, false), SAC_QWEN2VL_LAYER(up, true),
    SAC_QWEN2VL_LAYER(up_bias, false),   SAC_QWEN2VL_LAYER(down, true),       SAC_QWEN2VL_LAYER(down_bias, false),
};

const sac_tower_kind sac_tower_glmocrvit = {.name = "glmocrvit",
                                            .model_type = "glm_ocr_vision",
                                            .slots = slots,
                                            .n_slots = (int)SAC_COUNT(slots),
                                            SAC_QWEN2VL_KIND};
