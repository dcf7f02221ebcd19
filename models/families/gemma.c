#include "gemma.h"

#include "config_values.h"

#include <math.h>

void sac_gemma_defaults(sac_model_config *c) {
    c->gate_key = "hidden_activation";
    c->decoder.gate_act = SAC_ACT_GELU_TANH;
    c->tied_head = c->post_norms = true;
    c->default_stop_id = 1;
}

/* transformers takes the scale in the type of the weights; here these meet f32, whatever they are stored in. */
static void scale_embeddings(sac_decoder_config *d) {
    d->embed_scale = (float)sqrt((double)d->hidden);
}

static sac_status read_scale(sac_model_config *c, const json_t *object, sac_error *err) {
    double scalar = 256;
    SAC_TRY(sac_config_get_positive(object, "query_pre_attn_scalar", &scalar, err));
    c->decoder.attention_scale = (float)(1 / sqrt(scalar));
    return SAC_OK;
}

static sac_status read_window(sac_model_config *c, const json_t *object, int pattern, sac_error *err) {
    sac_decoder_config *d = &c->decoder;
    const json_t *window = json_object_get(object, "sliding_window");
    sac_layer_set set = {{0}};
    SAC_TRY(sac_json_get_int(object, "sliding_window", 1, INT32_MAX, &d->sliding_window, err));
    for (int i = 0; i < d->n_layers; i++)
        if ((i + 1) % pattern) sac_layer_set_add(&set, i);
    if (sac_config_has(object, "layer_types"))
        SAC_TRY(sac_config_read_layer_types(c, object, err));
    else
        sac_config_slide(c, &set);
    if (!d->sliding_window || !json_is_null(window)) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"sliding_window\" is null, and layers slide");
}

sac_status sac_gemma_read(sac_model_config *c, const json_t *object, int pattern, sac_error *err) {
    bool bias = false;
    SAC_TRY(sac_json_get_bool(object, "attention_bias", &bias, err));
    c->qkv_bias = c->o_bias = bias;
    SAC_TRY(sac_config_read_decoder(c, object, err));
    scale_embeddings(&c->decoder);
    SAC_TRY(read_scale(c, object, err));
    return read_window(c, object, pattern, err);
}

static float usual_scale(const sac_decoder_config *d, int large) {
    const double size = d->n_layers == large ? (double)(d->hidden / d->n_heads) : (double)d->head_dim;
    return (float)(1 / sqrt(size));
}

sac_status sac_gemma_read_gguf(sac_model_config *c, const json_t *keys, int pattern, int large, sac_error *err) {
    scale_embeddings(&c->decoder);
    c->decoder.attention_scale = usual_scale(&c->decoder, large);
    SAC_TRY(sac_config_get_float(keys, "attention.scale", &c->decoder.attention_scale, err));
    return sac_config_read_window_pattern(c, keys, pattern, err);
}

sac_status sac_gemma_write_gguf(const sac_model_config *c, json_t *keys, int pattern, int large, sac_error *err) {
    const sac_decoder_config *d = &c->decoder;
    const double scale = (double)d->attention_scale, usual = (double)usual_scale(d, large);
    if (d->gate_act != SAC_ACT_GELU_TANH)
        return sac_fail(err, SAC_UNSUPPORTED, "GGUF cannot say its \"hidden_activation\"; gelu_pytorch_tanh is what it means");
    if (fabs(scale - usual) > 1e-6 * usual) json_object_set_new(keys, "attention.scale", json_real(scale));
    return sac_config_write_window_pattern(c, keys, pattern, err);
}
