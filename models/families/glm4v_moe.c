/* glm4v_moe.c - GLM-4.5V and GLM-4.6V with experts (arXiv:2507.01006): GLM-4.1V (glm4v.c) over GLM-4.5's language model, whose
 * halves of heads are turned, not neighbours. */
#include "family.h"
#include "glm4.h"

static void defaults(sac_model_config *c) { /* transformers' Glm4vMoeTextConfig and Glm4vMoeConfig */
    sac_family_glm4_moe.defaults(c);
    c->decoder.vocab = 151424;
    c->decoder.max_position = 65536;
    c->qkv_bias = true;
    sac_glm4v_defaults(c);
    c->image_token = 151363;
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    return sac_glm4v_read(c, config, "glm4v_moe_text", sac_family_glm4_moe.read, sac_glm4v_read_own_tower, err);
}

const sac_family sac_family_glm4v_moe = {
    .name = "glm4v_moe", .defaults = defaults, .read = read, .positions = sac_positions_mrope, .mmproj = sac_glm4v_mmproj};
