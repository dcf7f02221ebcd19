/* gemma2.c - Gemma 2 (arXiv:2408.00118): every other layer slides; norms around both parts of a layer; scores of
 * attention and logits are capped. */
#include "config_values.h"
#include "family.h"
#include "gemma.h"

static void defaults(sac_model_config *c) { /* transformers' Gemma2Config */
    c->text_family = &sac_family_gemma2;
    c->decoder = (sac_decoder_config){
        .n_layers = 26,
        .hidden = 2304,
        .n_heads = 8,
        .n_kv_heads = 4,
        .head_dim = 256,
        .intermediate = 9216,
        .vocab = 256000,
        .max_position = 8192,
        .sliding_window = 4096,
        .rms_eps = 1e-6f,
        .rope.theta = 10000,
        .softcap = 50,
        .logit_softcap = 30,
    };
    sac_gemma_defaults(c);
}

/* null: no cap. */
static sac_status read_cap(const json_t *config, const char *key, float *cap, sac_error *err) {
    if (json_is_null(json_object_get(config, key))) *cap = 0;
    return sac_config_get_float(config, key, cap, err);
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    SAC_TRY(sac_gemma_read(c, config, 2, err));
    SAC_TRY(read_cap(config, "attn_logit_softcapping", &c->decoder.softcap, err));
    return read_cap(config, "final_logit_softcapping", &c->decoder.logit_softcap, err);
}

enum { PATTERN = 2, LAYERS_OF_27B = 46 };

/* A number that is missing is the model's usual one, 0 stands for none. */
static sac_status read_gguf_cap(const json_t *keys, const char *key, float *cap, sac_error *err) {
    const json_t *v = json_object_get(keys, key);
    if (json_is_number(v) && json_number_value(v) == 0) {
        *cap = 0;
        return SAC_OK;
    }
    return sac_config_get_float(keys, key, cap, err);
}

static sac_status read_gguf(sac_model_config *c, const json_t *keys, sac_error *err) {
    if (!json_object_get(keys, "attention.sliding_window")) c->decoder.sliding_window = 4096;
    SAC_TRY(read_gguf_cap(keys, "attn_logit_softcapping", &c->decoder.softcap, err));
    SAC_TRY(read_gguf_cap(keys, "final_logit_softcapping", &c->decoder.logit_softcap, err));
    return sac_gemma_read_gguf(c, keys, PATTERN, LAYERS_OF_27B, err);
}

static sac_status write_gguf(const sac_model_config *c, json_t *keys, sac_error *err) {
    json_object_set_new(keys, "attn_logit_softcapping", json_real((double)c->decoder.softcap));
    json_object_set_new(keys, "final_logit_softcapping", json_real((double)c->decoder.logit_softcap));
    if (!c->decoder.sliding_window) json_object_set_new(keys, "attention.sliding_window", json_integer(0));
    return sac_gemma_write_gguf(c, keys, PATTERN, LAYERS_OF_27B, err);
}

const sac_family sac_family_gemma2 = {.name = "gemma2",
                                      .defaults = defaults,
                                      .read = read,
                                      .positions = sac_positions_plain,
                                      .read_gguf = read_gguf,
                                      .write_gguf = write_gguf};
