/* config_vision.c - what config.json says of the vision tower and of the layers that are read from it. */
#include "config.h"

#include "config_values.h"

#include <string.h>

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

sac_status sac_config_check_tower(const sac_tower_config *v, sac_error *err) {
    SAC_TRY(sac_config_check_range("number of vision layers", v->n_layers, SAC_CONFIG_MAX_LAYERS, err));
    SAC_TRY(sac_config_check_range("vision hidden size", v->hidden, SAC_CONFIG_MAX_WIDTH, err));
    SAC_TRY(sac_config_check_range("vision intermediate size", v->intermediate, SAC_CONFIG_MAX_WIDTH, err));
    SAC_TRY(sac_config_check_range("number of vision heads", v->n_heads, SAC_CONFIG_MAX_HEADS, err));
    SAC_TRY(sac_config_check_range("image size", v->image_size, SAC_CONFIG_MAX_IMAGE, err));
    SAC_TRY(sac_config_check_range("patch size", v->patch_size, v->image_size, err));
    SAC_TRY(sac_config_check_range("patches a side", v->image_size / v->patch_size, 256, err));
    if (v->hidden % v->n_heads != 0)
        return sac_fail(err, SAC_BAD_FILE, "vision hidden size %d is not a multiple of %d heads", v->hidden,
                        v->n_heads);
    SAC_TRY(sac_config_check_range("vision head size", v->hidden / v->n_heads, SAC_CONFIG_MAX_HEAD_DIM, err));
    return sac_config_check_positive("layer_norm_eps", (double)v->norm_eps, err);
}

sac_status sac_config_read_side(const json_t *object, const char *key, int *value, sac_error *err) {
    const json_t *v = json_object_get(object, key);
    if (!json_is_array(v)) return sac_config_get_int(object, key, 1, SAC_CONFIG_MAX_IMAGE, value, err);
    const json_t *h = json_array_get(v, 0), *w = json_array_get(v, 1);
    if (json_array_size(v) != 2 || !json_is_integer(h) || !json_equal(h, w) || json_integer_value(h) < 1 ||
        json_integer_value(h) > SAC_CONFIG_MAX_IMAGE)
        return sac_fail(err, SAC_BAD_FILE, "\"%s\" must be one size of 1 to %d, or the same twice", key,
                        SAC_CONFIG_MAX_IMAGE);
    *value = (int)json_integer_value(h);
    return SAC_OK;
}

sac_status sac_config_read_tower(sac_model_config *c, const json_t *object, sac_error *err) {
    sac_tower_config *v = &c->tower;
    const char *type = NULL;
    SAC_TRY(sac_json_get_string(object, "model_type", &type, err));
    if (type) v->kind = sac_tower_find(type);
    if (!v->kind) return sac_fail(err, SAC_UNSUPPORTED, "vision model_type \"%.40s\" is not supported", type);
    int channels = 3;
    SAC_TRY(sac_config_get_int(object, "num_channels", 3, 3, &channels, err));
    SAC_TRY(sac_config_get_int(object, "hidden_size", 1, SAC_CONFIG_MAX_WIDTH, &v->hidden, err));
    SAC_TRY(sac_config_get_int(object, "intermediate_size", 1, SAC_CONFIG_MAX_WIDTH, &v->intermediate, err));
    SAC_TRY(sac_config_get_int(object, "num_hidden_layers", 1, SAC_CONFIG_MAX_LAYERS, &v->n_layers, err));
    SAC_TRY(sac_config_get_int(object, "num_attention_heads", 1, SAC_CONFIG_MAX_HEADS, &v->n_heads, err));
    SAC_TRY(sac_config_read_side(object, "image_size", &v->image_size, err));
    SAC_TRY(sac_config_read_side(object, "patch_size", &v->patch_size, err));
    SAC_TRY(sac_config_get_float(object, "layer_norm_eps", &v->norm_eps, err));
    SAC_TRY(sac_config_read_activation(&v->act, object, "hidden_act", err));
    return sac_config_check_tower(v, err);
}

/* hidden_states[i] of transformers: 0 is the embeddings' output, n_layers the last layer's, negative numbers
 * count from the end. */
static sac_status feature_layer(const sac_model_config *c, const json_t *v, const char *key, int *out,
                                sac_error *err) {
    int n = c->tower.n_layers;
    if (!json_is_integer(v))
        return sac_fail(err, SAC_BAD_FILE, "\"%s\" must be a layer or a list of layers", key);
    int64_t i = json_integer_value(v);
    if (i < -(n + 1) || i > n)
        return sac_fail(err, SAC_BAD_FILE, "\"%s\" is %lld, but the tower has layers 0 to %d (or -1 to -%d)",
                        key, (long long)i, n, n + 1);
    *out = (int)(i < 0 ? i + n + 1 : i);
    return SAC_OK;
}

sac_status sac_config_read_layers(sac_model_config *c, const json_t *object, const char *key, int fallback,
                                  sac_error *err) {
    const json_t *v = json_object_get(object, key);
    json_t *made = NULL;
    if (!v || json_is_null(v)) v = made = json_integer(fallback);
    c->tower.n_feature_layers = 0;
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    sac_status st = SAC_OK;
    if (n < 1 || n > SAC_TOWER_MAX_FEATURE_LAYERS)
        st = sac_fail(err, SAC_BAD_FILE, "\"%s\" lists %zu layers, must be 1 to %d", key, n,
                      SAC_TOWER_MAX_FEATURE_LAYERS);
    for (size_t i = 0; i < n && st == SAC_OK; i++)
        st = feature_layer(c, json_is_array(v) ? json_array_get(v, i) : v, key,
                           &c->tower.feature_layer[c->tower.n_feature_layers++], err);
    json_decref(made);
    return st;
}
