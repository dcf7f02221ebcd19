/* config.c - what every family's config.json has in common. Limits are generous for any published model and
 * small enough that products of two or three of them stay far below 2^63. */
#include "config.h"

#include "family.h"
#include "family_spec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    MAX_LAYERS = 1024,
    MAX_WIDTH = 1 << 18, /* hidden, intermediate, heads * head_dim */
    MAX_HEADS = 4096,
    MAX_HEAD_DIM = 1024,
    MAX_VOCAB = 1 << 24,
    MAX_IMAGE = 4096,
};

static sac_status get_int(const json_t *object, const char *key, int64_t min, int64_t max, int *value,
                          sac_error *err) {
    int64_t n = *value;
    SAC_TRY(sac_json_get_int(object, key, min, max, &n, err));
    *value = (int)n;
    return SAC_OK;
}

static bool given(const json_t *object, const char *key) {
    const json_t *v = json_object_get(object, key);
    return v && !json_is_null(v);
}

sac_status sac_model_config_default(sac_model_config *c, const sac_family *family, sac_error *err) {
    memset(c, 0, sizeof *c);
    c->family = family;
    c->image_token = -1;
    c->default_stop_id = -1;
    sac_family_spec spec;
    SAC_TRY(sac_family_spec_open(&spec, family->name, err));
    bool joined = spec.frames && strcmp(spec.frames, "joined") == 0;
    c->frame_layout = joined ? SAC_FRAMES_JOINED : SAC_FRAMES_SEPARATE;
    snprintf(c->default_chat, sizeof c->default_chat, "%s", spec.chat ? spec.chat : "");
    sac_family_spec_free(&spec);
    family->defaults(c);
    return SAC_OK;
}

sac_status sac_model_config_read(sac_model_config *c, const json_t *config, sac_error *err) {
    const sac_family *family;
    if (!json_is_object(config)) return sac_fail(err, SAC_BAD_FILE, "not a JSON object");
    SAC_TRY(sac_family_of_config(&family, config, err));
    if (given(config, "quantization_config"))
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "\"quantization_config\": weights quantised in safetensors are not supported; use the "
            "original checkpoint or a GGUF file");
    SAC_TRY(sac_model_config_default(c, family, err));
    return family->read(c, config, err);
}

static sac_status positive(const char *key, double value, sac_error *err) {
    if (isfinite(value) && value > 0 && value < 1e18) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"%s\" is %g, must be a positive number", key, value);
}

static sac_status get_positive(const json_t *object, const char *key, double *value, sac_error *err) {
    SAC_TRY(sac_json_get_float(object, key, value, err));
    return given(object, key) ? positive(key, *value, err) : SAC_OK;
}

static sac_status get_float(const json_t *object, const char *key, float *value, sac_error *err) {
    double d = (double)*value;
    SAC_TRY(get_positive(object, key, &d, err));
    *value = (float)d;
    return SAC_OK;
}

/* ---- rope ---- */

static const char *const rope_names[] = {
    [SAC_ROPE_DEFAULT] = "default", [SAC_ROPE_LINEAR] = "linear", [SAC_ROPE_DYNAMIC] = "dynamic",
    [SAC_ROPE_YARN] = "yarn",       [SAC_ROPE_LLAMA3] = "llama3",
};

static sac_status rope_scaling_named(const char *name, sac_rope_scaling *out, sac_error *err) {
    for (size_t i = 0; i < SAC_COUNT(rope_names); i++)
        if (strcmp(name, rope_names[i]) == 0) {
            *out = (sac_rope_scaling)i;
            return SAC_OK;
        }
    return sac_fail(err, SAC_UNSUPPORTED,
                    "rope type \"%.30s\" is not supported (default, linear, dynamic, yarn, llama3 are)",
                    name);
}

/* DeepSeek's spelling of yarn's attention factor (transformers: get_mscale). */
static sac_status read_mscale(sac_rope_config *r, const json_t *p, sac_error *err) {
    double m = 0, all = 0;
    SAC_TRY(sac_json_get_float(p, "mscale", &m, err));
    SAC_TRY(sac_json_get_float(p, "mscale_all_dim", &all, err));
    if (r->attention_factor > 0 || m == 0 || all == 0 || r->factor <= 1) return SAC_OK;
    r->attention_factor = (0.1 * m * log(r->factor) + 1) / (0.1 * all * log(r->factor) + 1);
    return positive("mscale", r->attention_factor, err);
}

/* transformers 5 moved rope_theta and rope_scaling into rope_parameters. */
sac_status sac_config_read_rope(sac_model_config *c, const json_t *object, sac_error *err) {
    sac_rope_config *r = &c->decoder.rope;
    double theta = r->theta;
    sac_rope_config_default(r, c->decoder.head_dim);
    r->theta = theta;
    r->original_max_position = (double)c->decoder.max_position;
    SAC_TRY(get_positive(object, "rope_theta", &r->theta, err));
    double partial = 1;
    SAC_TRY(sac_json_get_float(object, "partial_rotary_factor", &partial, err));
    const json_t *p = NULL;
    SAC_TRY(sac_json_get_object(object, "rope_scaling", &p, err));
    if (!p || json_object_size(p) == 0) SAC_TRY(sac_json_get_object(object, "rope_parameters", &p, err));
    if (p) {
        const char *type = "default";
        SAC_TRY(sac_json_get_string(p, "type", &type, err));
        SAC_TRY(sac_json_get_string(p, "rope_type", &type, err));
        SAC_TRY(rope_scaling_named(type, &r->scaling, err));
        SAC_TRY(get_positive(p, "rope_theta", &r->theta, err));
        SAC_TRY(sac_json_get_float(p, "partial_rotary_factor", &partial, err));
    }
    if (partial != 1)
        return sac_fail(err, SAC_UNSUPPORTED, "\"partial_rotary_factor\" is %g; only 1 is supported",
                        partial);
    if (r->scaling == SAC_ROPE_DEFAULT) return SAC_OK;

    if (r->scaling != SAC_ROPE_DYNAMIC) {
        SAC_TRY(get_positive(p, "original_max_position_embeddings", &r->original_max_position, err));
        SAC_TRY(get_positive(object, "original_max_position_embeddings", &r->original_max_position, err));
    }
    if (given(p, "factor"))
        SAC_TRY(get_positive(p, "factor", &r->factor, err));
    else if (r->scaling == SAC_ROPE_YARN)
        r->factor = (double)c->decoder.max_position / r->original_max_position;
    else
        return sac_fail(err, SAC_BAD_FILE, "rope type \"%s\" needs a \"factor\"", rope_names[r->scaling]);
    SAC_TRY(get_positive(p, "low_freq_factor", &r->low_freq_factor, err));
    SAC_TRY(get_positive(p, "high_freq_factor", &r->high_freq_factor, err));
    if (r->scaling == SAC_ROPE_LLAMA3 && r->high_freq_factor <= r->low_freq_factor)
        return sac_fail(err, SAC_BAD_FILE, "\"high_freq_factor\" %g must be above \"low_freq_factor\" %g",
                        r->high_freq_factor, r->low_freq_factor);
    if (r->scaling != SAC_ROPE_YARN) return SAC_OK;
    SAC_TRY(get_positive(p, "beta_fast", &r->beta_fast, err));
    SAC_TRY(get_positive(p, "beta_slow", &r->beta_slow, err));
    SAC_TRY(get_positive(p, "attention_factor", &r->attention_factor, err));
    SAC_TRY(sac_json_get_bool(p, "truncate", &r->truncate, err));
    return read_mscale(r, p, err);
}

/* ---- decoder ---- */

static sac_status in_range(const char *what, int64_t value, int64_t max, sac_error *err) {
    if (value >= 1 && value <= max) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "%s is %lld, must be 1 to %lld", what, (long long)value,
                    (long long)max);
}

sac_status sac_config_check_decoder(const sac_decoder_config *d, sac_error *err) {
    SAC_TRY(in_range("number of layers", d->n_layers, MAX_LAYERS, err));
    SAC_TRY(in_range("hidden size", d->hidden, MAX_WIDTH, err));
    SAC_TRY(in_range("intermediate size", d->intermediate, MAX_WIDTH, err));
    SAC_TRY(in_range("number of heads", d->n_heads, MAX_HEADS, err));
    SAC_TRY(in_range("number of key-value heads", d->n_kv_heads, MAX_HEADS, err));
    SAC_TRY(in_range("head size", d->head_dim, MAX_HEAD_DIM, err));
    SAC_TRY(in_range("heads times head size", (int64_t)d->n_heads * d->head_dim, MAX_WIDTH, err));
    SAC_TRY(in_range("vocabulary", d->vocab, MAX_VOCAB, err));
    SAC_TRY(in_range("context", d->max_position, INT32_MAX, err));
    if (d->n_heads % d->n_kv_heads != 0)
        return sac_fail(err, SAC_BAD_FILE, "%d heads cannot share %d key-value heads evenly", d->n_heads,
                        d->n_kv_heads);
    if (d->rope.rot_dim < 2 || d->rope.rot_dim % 2 != 0 || d->rope.rot_dim > d->head_dim)
        return sac_fail(err, SAC_BAD_FILE,
                        "%d of %d channels of a head are rotated; an even number is needed", d->rope.rot_dim,
                        d->head_dim);
    /* dynamic divides by rot_dim - 2, yarn by log(theta) */
    if (d->rope.scaling == SAC_ROPE_DYNAMIC && d->rope.rot_dim == 2)
        return sac_fail(err, SAC_BAD_FILE, "rope type \"dynamic\" needs more than 2 rotated channels");
    if (d->rope.scaling == SAC_ROPE_YARN && d->rope.theta <= 1)
        return sac_fail(err, SAC_BAD_FILE, "rope type \"yarn\" needs a \"rope_theta\" above 1");
    SAC_TRY(positive("rope_theta", d->rope.theta, err));
    SAC_TRY(positive("rope factor", d->rope.factor, err));
    SAC_TRY(positive("original context", d->rope.original_max_position, err));
    return positive("norm epsilon", (double)d->rms_eps, err);
}

sac_status sac_config_read_decoder(sac_model_config *c, const json_t *object, sac_error *err) {
    sac_decoder_config *d = &c->decoder;
    SAC_TRY(get_int(object, "num_hidden_layers", 1, MAX_LAYERS, &d->n_layers, err));
    SAC_TRY(get_int(object, "hidden_size", 1, MAX_WIDTH, &d->hidden, err));
    SAC_TRY(get_int(object, "intermediate_size", 1, MAX_WIDTH, &d->intermediate, err));
    SAC_TRY(get_int(object, "num_attention_heads", 1, MAX_HEADS, &d->n_heads, err));
    SAC_TRY(get_int(object, "vocab_size", 1, MAX_VOCAB, &d->vocab, err));
    SAC_TRY(sac_json_get_int(object, "max_position_embeddings", 1, INT32_MAX, &d->max_position, err));
    SAC_TRY(get_float(object, "rms_norm_eps", &d->rms_eps, err));
    /* null means one key-value head for each head, in every family; a missing key the family's own default */
    const json_t *kv = json_object_get(object, "num_key_value_heads");
    if (json_is_null(kv) || d->n_kv_heads == 0) d->n_kv_heads = d->n_heads;
    SAC_TRY(get_int(object, "num_key_value_heads", 1, MAX_HEADS, &d->n_kv_heads, err));
    if (!given(object, "head_dim") && d->hidden % d->n_heads != 0)
        return sac_fail(err, SAC_BAD_FILE,
                        "\"hidden_size\" %d is not a multiple of \"num_attention_heads\" %d", d->hidden,
                        d->n_heads);
    d->head_dim = d->hidden / d->n_heads;
    SAC_TRY(get_int(object, "head_dim", 1, MAX_HEAD_DIM, &d->head_dim, err));
    SAC_TRY(sac_json_get_bool(object, "tie_word_embeddings", &c->tied_head, err));
    const char *act = "silu";
    SAC_TRY(sac_json_get_string(object, "hidden_act", &act, err));
    if (strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        return sac_fail(err, SAC_UNSUPPORTED, "\"hidden_act\" is \"%.30s\"; only silu is supported", act);
    bool mlp_bias = false;
    SAC_TRY(sac_json_get_bool(object, "mlp_bias", &mlp_bias, err));
    if (mlp_bias) return sac_fail(err, SAC_UNSUPPORTED, "\"mlp_bias\" is not supported");
    SAC_TRY(sac_config_read_rope(c, object, err));
    SAC_TRY(sac_config_check_decoder(d, err));
    return sac_config_add_stop_ids(c->stop_ids, &c->n_stop_ids, object, d->vocab, err);
}

/* ---- vision ---- */

sac_status sac_config_read_activation(sac_activation *act, const json_t *object, const char *key,
                                      sac_error *err) {
    static const struct {
        const char *name;
        sac_activation act;
    } names[] = {
        {"gelu", SAC_ACT_GELU},
        {"gelu_new", SAC_ACT_GELU_TANH},
        {"gelu_fast", SAC_ACT_GELU_TANH},
        {"gelu_pytorch_tanh", SAC_ACT_GELU_TANH},
        {"quick_gelu", SAC_ACT_QUICK_GELU},
        {"silu", SAC_ACT_SILU},
        {"swish", SAC_ACT_SILU},
    };
    const char *name = NULL;
    SAC_TRY(sac_json_get_string(object, key, &name, err));
    if (!name) return SAC_OK;
    for (size_t i = 0; i < SAC_COUNT(names); i++)
        if (strcmp(name, names[i].name) == 0) {
            *act = names[i].act;
            return SAC_OK;
        }
    return sac_fail(err, SAC_UNSUPPORTED, "\"%s\" is \"%.30s\", which is not supported", key, name);
}

sac_status sac_config_check_vit(const sac_vit_config *v, sac_error *err) {
    SAC_TRY(in_range("number of vision layers", v->n_layers, MAX_LAYERS, err));
    SAC_TRY(in_range("vision hidden size", v->hidden, MAX_WIDTH, err));
    SAC_TRY(in_range("vision intermediate size", v->intermediate, MAX_WIDTH, err));
    SAC_TRY(in_range("number of vision heads", v->n_heads, MAX_HEADS, err));
    SAC_TRY(in_range("image size", v->image_size, MAX_IMAGE, err));
    SAC_TRY(in_range("patch size", v->patch_size, v->image_size, err));
    SAC_TRY(in_range("patches a side", v->image_size / v->patch_size, 256, err));
    if (v->hidden % v->n_heads != 0)
        return sac_fail(err, SAC_BAD_FILE, "vision hidden size %d is not a multiple of %d heads", v->hidden,
                        v->n_heads);
    SAC_TRY(in_range("vision head size", v->hidden / v->n_heads, MAX_HEAD_DIM, err));
    return positive("layer_norm_eps", (double)v->layer_norm_eps, err);
}

/* A size that may be written as one number or as [height, width]; only squares are supported. */
static sac_status get_side(const json_t *object, const char *key, int *value, sac_error *err) {
    const json_t *v = json_object_get(object, key);
    if (!json_is_array(v)) return get_int(object, key, 1, MAX_IMAGE, value, err);
    const json_t *h = json_array_get(v, 0), *w = json_array_get(v, 1);
    if (json_array_size(v) != 2 || !json_is_integer(h) || !json_equal(h, w) || json_integer_value(h) < 1 ||
        json_integer_value(h) > MAX_IMAGE)
        return sac_fail(err, SAC_BAD_FILE, "\"%s\" must be one size of 1 to %d, or the same twice", key,
                        MAX_IMAGE);
    *value = (int)json_integer_value(h);
    return SAC_OK;
}

sac_status sac_config_read_vit(sac_model_config *c, const json_t *object, sac_error *err) {
    sac_vit_config *v = &c->vit;
    const char *type = "clip_vision_model";
    SAC_TRY(sac_json_get_string(object, "model_type", &type, err));
    if (strcmp(type, "clip_vision_model") != 0)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "vision model_type \"%.40s\"; only clip_vision_model is supported", type);
    int channels = 3;
    SAC_TRY(get_int(object, "num_channels", 3, 3, &channels, err));
    SAC_TRY(get_int(object, "hidden_size", 1, MAX_WIDTH, &v->hidden, err));
    SAC_TRY(get_int(object, "intermediate_size", 1, MAX_WIDTH, &v->intermediate, err));
    SAC_TRY(get_int(object, "num_hidden_layers", 1, MAX_LAYERS, &v->n_layers, err));
    SAC_TRY(get_int(object, "num_attention_heads", 1, MAX_HEADS, &v->n_heads, err));
    SAC_TRY(get_side(object, "image_size", &v->image_size, err));
    SAC_TRY(get_side(object, "patch_size", &v->patch_size, err));
    SAC_TRY(get_float(object, "layer_norm_eps", &v->layer_norm_eps, err));
    SAC_TRY(sac_config_read_activation(&v->act, object, "hidden_act", err));
    return sac_config_check_vit(v, err);
}

/* hidden_states[i] of transformers: 0 is the embeddings' output, n_layers the last layer's, negative numbers
 * count from the end. */
static sac_status feature_layer(const sac_model_config *c, const json_t *v, const char *key, int *out,
                                sac_error *err) {
    int n = c->vit.n_layers;
    if (!json_is_integer(v))
        return sac_fail(err, SAC_BAD_FILE, "\"%s\" must be a layer or a list of layers", key);
    int64_t i = json_integer_value(v);
    if (i < -(n + 1) || i > n)
        return sac_fail(err, SAC_BAD_FILE, "\"%s\" is %lld, but the tower has layers 0 to %d (or -1 to -%d)",
                        key, (long long)i, n, n + 1);
    *out = (int)(i < 0 ? i + n + 1 : i);
    return SAC_OK;
}

sac_status sac_config_read_layers(sac_model_config *c, const json_t *object, const char *key,
                                  sac_error *err) {
    const json_t *v = json_object_get(object, key);
    json_t *fallback = NULL;
    if (!v || json_is_null(v)) v = fallback = json_integer(-2); /* LLaVA's default, in every family */
    c->vit.n_feature_layers = 0;
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    sac_status st = SAC_OK;
    if (n < 1 || n > SAC_VIT_MAX_FEATURE_LAYERS)
        st = sac_fail(err, SAC_BAD_FILE, "\"%s\" lists %zu layers, must be 1 to %d", key, n,
                      SAC_VIT_MAX_FEATURE_LAYERS);
    for (size_t i = 0; i < n && st == SAC_OK; i++)
        st = feature_layer(c, json_is_array(v) ? json_array_get(v, i) : v, key,
                           &c->vit.feature_layer[c->vit.n_feature_layers++], err);
    json_decref(fallback);
    return st;
}

/* ---- generation ---- */

static sac_status add_stop_id(int32_t *ids, int *n, const json_t *v, int vocab, sac_error *err) {
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= vocab)
        return sac_fail(err, SAC_BAD_FILE, "\"eos_token_id\" must hold ids from 0 to %d", vocab - 1);
    int32_t id = (int32_t)json_integer_value(v);
    for (int i = 0; i < *n; i++)
        if (ids[i] == id) return SAC_OK;
    if (*n == SAC_MAX_STOP_IDS)
        return sac_fail(err, SAC_BAD_FILE, "\"eos_token_id\" holds more than %d ids", SAC_MAX_STOP_IDS);
    ids[(*n)++] = id;
    return SAC_OK;
}

sac_status sac_config_add_stop_ids(int32_t ids[SAC_MAX_STOP_IDS], int *n, const json_t *object, int vocab,
                                   sac_error *err) {
    const json_t *v = json_object_get(object, "eos_token_id");
    if (!v || json_is_null(v)) return SAC_OK;
    if (!json_is_array(v)) return add_stop_id(ids, n, v, vocab, err);
    for (size_t i = 0; i < json_array_size(v); i++)
        SAC_TRY(add_stop_id(ids, n, json_array_get(v, i), vocab, err));
    return SAC_OK;
}

sac_status sac_config_read_generation(sac_generation_config *g, const json_t *object, sac_error *err) {
    SAC_TRY(sac_json_get_bool(object, "do_sample", &g->do_sample, err));
    SAC_TRY(sac_json_get_float(object, "temperature", &g->temperature, err));
    SAC_TRY(sac_json_get_float(object, "top_p", &g->top_p, err));
    SAC_TRY(sac_json_get_float(object, "min_p", &g->min_p, err));
    SAC_TRY(get_int(object, "top_k", 0, INT32_MAX, &g->top_k, err));
    SAC_TRY(get_positive(object, "repetition_penalty", &g->repetition_penalty, err));
    if (!(g->temperature >= 0) || !(g->temperature < 1e6))
        return sac_fail(err, SAC_BAD_FILE, "\"temperature\" is %g, must be at least 0", g->temperature);
    if (!(g->top_p > 0) || !(g->top_p <= 1))
        return sac_fail(err, SAC_BAD_FILE, "\"top_p\" is %g, must be above 0 and at most 1", g->top_p);
    if (!(g->min_p >= 0) || !(g->min_p <= 1))
        return sac_fail(err, SAC_BAD_FILE, "\"min_p\" is %g, must be from 0 to 1", g->min_p);
    return SAC_OK;
}
