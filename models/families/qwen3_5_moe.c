/* qwen3_5_moe.c - Qwen3.5 with experts: its language model (qwen3_5_moe_text.c) under what sees of the dense one (qwen3_5.c). */
#include "qwen3_5.h"

static void defaults(sac_model_config *c) { /* transformers' Qwen3_5MoeConfig and Qwen3_5MoeVisionConfig */
    sac_family_qwen3_vl.defaults(c);
    sac_family_qwen3_5_moe_text.defaults(c);
    sac_qwen3_5_token_defaults(c);
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    return sac_family_qwen3_5.read(c, config, err);
}

static sac_status mmproj(sac_mmproj *p, sac_error *err) {
    return sac_qwen3_5_mmproj(p, err);
}

const sac_family sac_family_qwen3_5_moe = {.name = "qwen3_5_moe",
                                           .defaults = defaults,
                                           .read = read,
                                           .positions = sac_positions_mrope,
                                           .mmproj = mmproj};
