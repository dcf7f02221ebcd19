/* pixtral.c - the tower of Pixtral (Agrawal et al., arXiv:2410.07073, sec. 2.1) and Mistral Small 3.1: as Qwen2-VL's
 * (qwen2vl.h), with an RMS norm behind the patches, gated layers and no biases. The rows' and the columns' rates of rotation
 * take turns. A patch is one of one picture; each picture attends to itself alone. */
#include "qwen2vl.h"

static const sac_weight_slot slots[] = {
    SAC_QWEN2VL_PART(patch_embed, true), SAC_QWEN2VL_PART(pre_norm, false), SAC_QWEN2VL_LAYER(norm1_w, false),
    SAC_QWEN2VL_LAYER(q, true),          SAC_QWEN2VL_LAYER(k, true),        SAC_QWEN2VL_LAYER(v, true),
    SAC_QWEN2VL_LAYER(o, true),          SAC_QWEN2VL_LAYER(norm2_w, false), SAC_QWEN2VL_LAYER(gate, true),
    SAC_QWEN2VL_LAYER(up, true),         SAC_QWEN2VL_LAYER(down, true),
};

const sac_tower_kind sac_tower_pixtral = {.name = "pixtral",
                                          .model_type = "pixtral",
                                          .slots = slots,
                                          .n_slots = (int)SAC_COUNT(slots),
                                          .weights_bytes = sizeof(sac_qwen2vl_weights),
                                          .layer_bytes = sizeof(sac_qwen2vl_layer),
                                          .rates_take_turns = true,
                                          .plan = sac_qwen2vl_plan,
                                          .symbols = sac_qwen2vl_symbols,
                                          .place = sac_qwen2vl_place,
                                          .take = sac_qwen2vl_take,
                                          .encode = sac_qwen2vl_encode};
