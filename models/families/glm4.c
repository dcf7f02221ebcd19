/* glm4.c - GLM-4-0414 (arXiv:2406.12793 has the architecture of its forerunners): norms around both parts of a layer, half of
 * each head's channels turned, neighbours together, and gate and up in one matrix. */
#include "glm4.h"

#include "config_values.h"
#include "family.h"

static void defaults(sac_model_config *c) { /* transformers' Glm4Config */
    c->text_family = &sac_family_glm4;
    c->decoder = (sac_decoder_config){
        .n_layers = 40,
        .hidden = 4096,
        .n_heads = 32,
        .n_kv_heads = 2,
        .head_dim = 128,
        .intermediate = 13696,
        .vocab = 151552,
        .max_position = 131072,
        .rms_eps = 0.00000015625f,
        .rope.theta = 10000,
    };
    c->qkv_bias = c->post_norms = true;
    c->partial_rotary = 0.5;
}

/* Glm4Config's own, of which a small vocabulary has none. */
static void default_stops(sac_model_config *c) {
    static const int32_t ids[] = {151329, 151336, 151338}; /* <|endoftext|>, <|user|>, <|observation|> */
    for (size_t i = 0; i < SAC_COUNT(ids); i++)
        if (ids[i] < c->decoder.vocab) c->stop_ids[c->n_stop_ids++] = ids[i];
}

sac_status sac_glm4_read(sac_model_config *c, const json_t *object, sac_error *err) {
    SAC_TRY(sac_json_get_bool(object, "attention_bias", &c->qkv_bias, err));
    SAC_TRY(sac_config_read_decoder(c, object, err));
    c->decoder.rope.interleaved = true;
    return SAC_OK;
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    SAC_TRY(sac_glm4_read(c, config, err));
    if (c->n_stop_ids == 0) default_stops(c);
    return SAC_OK;
}

/* Where the language model numbers rows on several axes (GLM-4.1V) the file has halves of heads in the place of neighbours, as
 * llama.cpp's converter exchanges their rows. Biases are where the tensors are. */
static sac_status read_gguf(sac_model_config *c, const json_t *keys, sac_error *err) {
    const json_t *sections = json_object_get(keys, "rope.dimension_sections");
    SAC_TRY(sac_config_drop_gguf_layers(c, keys, err));
    c->decoder.rope.interleaved = json_integer_value(json_array_get(sections, 0)) == 0;
    c->qkv_bias = false;
    return SAC_OK;
}

const sac_family sac_family_glm4 = {
    .name = "glm4", .defaults = defaults, .read = read, .positions = sac_positions_plain, .read_gguf = read_gguf};
