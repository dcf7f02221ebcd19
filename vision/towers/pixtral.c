/* pixtral.c - the tower of Pixtral (Agrawal et al., arXiv:2410.07073, sec. 2.1) and Mistral Small 3.1: as Qwen2-VL's
 * (qwen2vl.h), with an RMS norm behind the patches, gated layers and no biases. The rows' and the columns' rates of rotation
 * take turns. A patch is one of one picture; each picture attends to itself alone. */
#include "qwen2vl.h"

#define LAYER(field, matrix)                                                                                 \
    { "tower.layer." #field, true, matrix, offsetof(sac_qwen2vl_layer, field) }
static const sac_weight_slot slots[] = {
    {"tower.patch_embed", false, true, offsetof(sac_qwen2vl_weights, patch_embed)},
    {"tower.pre_norm", false, false, offsetof(sac_qwen2vl_weights, pre_norm)},
    LAYER(norm1_w, false),
    LAYER(q, true),
    LAYER(k, true),
    LAYER(v, true),
    LAYER(o, true),
    LAYER(norm2_w, false),
    LAYER(gate, true),
    LAYER(up, true),
    LAYER(down, true),
};
#undef LAYER

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
