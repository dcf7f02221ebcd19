/* qwen3.c - Qwen3 (arXiv:2505.09388): as Qwen2, but with a norm of each head of queries and keys, without biases,
 * and with heads whose size is their own. */
#include "family.h"

static void defaults(sac_model_config *c) { /* transformers' Qwen3Config */
    sac_family_qwen2.defaults(c);
    c->text_family = &sac_family_qwen3;
    c->decoder.head_dim = 128;
    c->qkv_bias = false;
    c->qk_norm = true;
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    SAC_TRY(sac_json_get_bool(config, "attention_bias", &c->qkv_bias, err));
    c->o_bias = c->qkv_bias;
    return sac_family_qwen2.read(c, config, err);
}

const sac_family sac_family_qwen3 = {.name = "qwen3",
                                     .defaults = defaults,
                                     .read = read,
                                     .positions = sac_positions_plain};
