/* qwen3_5_text.c - the language model of Qwen3.5, which stands alone, too: as Qwen3 with norms that add to 1, but three of
 * four layers have linear attention (llm/linear_attention.h), and what the others' attention gives is gated (Qiu et al.,
 * arXiv:2505.06708). A quarter of a head's channels is turned, by numbers on three axes. */
#include "config_values.h"
#include "qwen3_5.h"

#include <string.h>

static void defaults(sac_model_config *c) { /* transformers' Qwen3_5TextConfig */
    sac_family_qwen3.defaults(c);
    c->text_family = &sac_family_qwen3_5_text;
    c->decoder.n_layers = 32;
    c->decoder.hidden = 4096;
    c->decoder.n_heads = 16;
    c->decoder.n_kv_heads = 4;
    c->decoder.head_dim = 256;
    c->decoder.intermediate = 12288;
    c->decoder.vocab = 248320;
    c->decoder.max_position = 32768;
    c->decoder.rms_eps = 1e-6f;
    c->decoder.rope.theta = 10000;
    c->decoder.gated_attention = true;
    c->decoder.linear =
        (sac_linear_shape){.n_heads = 32, .n_key_heads = 16, .key_dim = 128, .value_dim = 128, .conv_width = 4};
    c->partial_rotary = 0.25;
    c->has_axes = true;
    c->axes_take_turns = true;
}

static sac_status check_linear(const sac_linear_shape *s, sac_error *err) {
    if (s->n_heads % s->n_key_heads != 0)
        return sac_fail(err, SAC_BAD_FILE, "%d value heads of linear attention cannot share %d key heads evenly", s->n_heads,
                        s->n_key_heads);
    return sac_config_check_range("channels of linear attention", sac_linear_mixed(s), SAC_CONFIG_MAX_WIDTH, err);
}

static sac_status read_linear(sac_linear_shape *s, const json_t *object, sac_error *err) {
    const struct {
        const char *key;
        int most, *value;
    } sizes[] = {{"linear_num_value_heads", SAC_CONFIG_MAX_HEADS, &s->n_heads},
                 {"linear_num_key_heads", SAC_CONFIG_MAX_HEADS, &s->n_key_heads},
                 {"linear_key_head_dim", SAC_DELTA_KEY_MOST, &s->key_dim},
                 {"linear_value_head_dim", SAC_CONFIG_MAX_HEAD_DIM, &s->value_dim},
                 {"linear_conv_kernel_dim", SAC_CONV_MOST, &s->conv_width}};
    for (size_t i = 0; i < SAC_COUNT(sizes); i++)
        SAC_TRY(sac_config_get_int(object, sizes[i].key, 1, sizes[i].most, sizes[i].value, err));
    return check_linear(s, err);
}

static sac_status is_linear(const json_t *types, int layer, bool *out, sac_error *err) {
    const char *type = json_string_value(json_array_get(types, (size_t)layer));
    *out = type && strcmp(type, "linear_attention") == 0;
    if (*out || (type && strcmp(type, "full_attention") == 0)) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED,
                    "\"layer_types\": layer %d is \"%.30s\"; linear_attention and full_attention are supported", layer,
                    type ? type : "");
}

/* n layers have linear attention. */
static sac_status end_layers(sac_decoder_config *d, int n, sac_error *err) {
    if (n == d->n_layers)
        return sac_fail(err, SAC_UNSUPPORTED, "all %d layers have linear attention; a model needs one of full attention", n);
    if (n == 0) d->linear = (sac_linear_shape){0};
    return SAC_OK;
}

/* By the list; without one every so many layers one has full attention. */
static sac_status read_layers(sac_decoder_config *d, const json_t *object, sac_error *err) {
    const json_t *types;
    int interval = 4, n = 0;
    SAC_TRY(sac_json_get_array(object, "layer_types", &types, err));
    SAC_TRY(sac_config_get_int(object, "full_attention_interval", 1, INT32_MAX, &interval, err));
    if (types && json_array_size(types) != (size_t)d->n_layers)
        return sac_fail(err, SAC_BAD_FILE, "\"layer_types\" lists %zu layers of %d", json_array_size(types), d->n_layers);
    for (int i = 0; i < d->n_layers; i++) {
        bool yes = (i + 1) % interval != 0;
        if (types) SAC_TRY(is_linear(types, i, &yes, err));
        if (yes) sac_layer_set_add(&d->linear_layers, i);
        n += yes;
    }
    return end_layers(d, n, err);
}

sac_status sac_qwen3_5_read_text(sac_model_config *c, const json_t *object, sac_error *err) {
    SAC_TRY(sac_json_get_bool(object, "attention_bias", &c->qkv_bias, err));
    c->o_bias = c->qkv_bias;
    SAC_TRY(sac_config_read_decoder(c, object, err));
    SAC_TRY(read_linear(&c->decoder.linear, object, err));
    return read_layers(&c->decoder, object, err);
}

/* Which layers have linear attention, of a list of flags or by how far apart the others stand; as llama.cpp reads them. */
static sac_status read_gguf_layers(sac_decoder_config *d, const json_t *keys, sac_error *err) {
    const json_t *flags;
    int interval = 4, n = 0;
    SAC_TRY(sac_json_get_array(keys, "attention.recurrent_layers", &flags, err));
    SAC_TRY(sac_config_get_int(keys, "full_attention_interval", 1, INT32_MAX, &interval, err));
    if (flags && json_array_size(flags) < (size_t)d->n_layers)
        return sac_fail(err, SAC_BAD_FILE, "\"attention.recurrent_layers\" lists %zu layers of %d", json_array_size(flags), d->n_layers);
    for (int i = 0; i < d->n_layers; i++) {
        const json_t *flag = json_array_get(flags, (size_t)i);
        const bool yes = flag ? json_is_true(flag) || json_integer_value(flag) != 0 : (i + 1) % interval != 0;
        if (yes) sac_layer_set_add(&d->linear_layers, i);
        n += yes;
    }
    return end_layers(d, n, err);
}

/* Layers that guess tokens ahead are counted among the others, behind them. */
static sac_status read_gguf_drafts(sac_decoder_config *d, const json_t *keys, sac_error *err) {
    int n = 0;
    SAC_TRY(sac_config_get_int(keys, "nextn_predict_layers", 0, SAC_CONFIG_MAX_LAYERS, &n, err));
    if (n >= d->n_layers) return sac_fail(err, SAC_BAD_FILE, "\"nextn_predict_layers\" is %d of %d layers", n, d->n_layers);
    d->n_layers -= n;
    return SAC_OK;
}

sac_status sac_qwen3_5_read_gguf(sac_model_config *c, const json_t *keys, sac_error *err) {
    sac_linear_shape *s = &c->decoder.linear;
    int values = 0;
    const struct {
        const char *key;
        int most, *value;
    } sizes[] = {{"ssm.time_step_rank", SAC_CONFIG_MAX_HEADS, &s->n_heads},
                 {"ssm.group_count", SAC_CONFIG_MAX_HEADS, &s->n_key_heads},
                 {"ssm.state_size", SAC_DELTA_KEY_MOST, &s->key_dim},
                 {"ssm.inner_size", SAC_CONFIG_MAX_WIDTH, &values},
                 {"ssm.conv_kernel", SAC_CONV_MOST, &s->conv_width}};
    for (size_t i = 0; i < SAC_COUNT(sizes); i++) {
        if (!json_object_get(keys, sizes[i].key)) return sac_fail(err, SAC_BAD_FILE, "\"%s\" is missing", sizes[i].key);
        SAC_TRY(sac_config_get_int(keys, sizes[i].key, 1, sizes[i].most, sizes[i].value, err));
    }
    if (values % s->n_heads != 0)
        return sac_fail(err, SAC_BAD_FILE, "\"ssm.inner_size\" %d is not a multiple of \"ssm.time_step_rank\" %d", values, s->n_heads);
    s->value_dim = values / s->n_heads;
    s->tiled = true;
    SAC_TRY(sac_config_check_range("channels of a head of linear attention", s->value_dim, SAC_CONFIG_MAX_HEAD_DIM, err));
    SAC_TRY(check_linear(s, err));
    SAC_TRY(read_gguf_drafts(&c->decoder, keys, err));
    return read_gguf_layers(&c->decoder, keys, err);
}

const sac_family sac_family_qwen3_5_text = {
    .name = "qwen3_5_text",
    .defaults = defaults,
    .read = sac_qwen3_5_read_text,
    .positions = sac_positions_plain,
    .read_gguf = sac_qwen3_5_read_gguf,
};
