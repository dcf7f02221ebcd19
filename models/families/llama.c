/* llama.c - Llama 1 to 3 and what is trained in its shape: Vicuna, Yi, SmolLM2, TinyLlama. */
#include "family.h"

static void defaults(sac_model_config *c) { /* transformers' LlamaConfig: Llama-2-7B */
    c->text_family = &sac_family_llama;
    c->decoder = (sac_decoder_config){
        .n_layers = 32,
        .hidden = 4096,
        .n_heads = 32,
        .intermediate = 11008,
        .vocab = 32000,
        .max_position = 2048,
        .rms_eps = 1e-6f,
        .rope.theta = 10000,
    };
    c->default_stop_id = 2;
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    bool bias = false;
    SAC_TRY(sac_json_get_bool(config, "attention_bias", &bias, err));
    c->qkv_bias = c->o_bias = bias;
    return sac_config_read_decoder(c, config, err);
}

/* Mixtral's files have the architecture's name. */
static sac_status read_gguf(sac_model_config *c, const json_t *keys, sac_error *err) {
    const json_t *n = json_object_get(keys, "expert_count");
    return json_integer_value(n) > 0 ? sac_config_read_gguf_experts(c, keys, true, err) : SAC_OK;
}

const sac_family sac_family_llama = {.name = "llama",
                                     .defaults = defaults,
                                     .read = read,
                                     .positions = sac_positions_plain,
                                     .read_gguf = read_gguf,
                                     .gguf_experts = true,
                                     .gguf_neighbours = true};
