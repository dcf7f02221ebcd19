/* config_layers.c - which layers of a language model attend to a window only. */
#include "config.h"

#include "config_values.h"

#include <string.h>

static sac_status slides(const json_t *types, int layer, bool *out, sac_error *err) {
    const char *type = json_string_value(json_array_get(types, (size_t)layer));
    *out = type && strcmp(type, "sliding_attention") == 0;
    if (*out || (type && strcmp(type, "full_attention") == 0)) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED,
                    "\"layer_types\": layer %d is \"%.30s\"; sliding_attention and full_attention are "
                    "supported",
                    layer, type ? type : "");
}

void sac_config_slide(sac_model_config *c, const sac_layer_set *set) {
    sac_decoder_config *d = &c->decoder;
    int n = 0;
    for (int i = 0; i < d->n_layers; i++) n += sac_layer_set_has(set, i);
    d->some_slide = n < d->n_layers;
    d->sliding = *set;
    if (n == 0) d->sliding_window = 0;
}

sac_status sac_config_read_layer_types(sac_model_config *c, const json_t *object, sac_error *err) {
    const json_t *types;
    sac_layer_set set = {{0}};
    SAC_TRY(sac_json_get_array(object, "layer_types", &types, err));
    if (!types) return SAC_OK;
    if (json_array_size(types) != (size_t)c->decoder.n_layers)
        return sac_fail(err, SAC_BAD_FILE, "\"layer_types\" lists %zu layers of %d", json_array_size(types),
                        c->decoder.n_layers);
    for (int i = 0; i < c->decoder.n_layers; i++) {
        bool yes;
        SAC_TRY(slides(types, i, &yes, err));
        if (yes) sac_layer_set_add(&set, i);
    }
    sac_config_slide(c, &set);
    return SAC_OK;
}

/* Whether layer i slides: by a list of flags, or by a period, whose last layer does not. */
static sac_status slides_by(const json_t *pattern, int period, int layer, bool *out, sac_error *err) {
    const json_t *item = json_array_get(pattern, (size_t)layer);
    *out = period == 0 || layer % period < period - 1;
    if (!json_is_array(pattern)) return SAC_OK;
    *out = json_is_true(item) || json_integer_value(item) == 1;
    if (json_is_boolean(item) || (json_is_integer(item) && (*out || json_integer_value(item) == 0))) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"" SAC_WINDOW_PATTERN "\" must list a flag for each layer");
}

sac_status sac_config_read_window_pattern(sac_model_config *c, const json_t *keys, int period, sac_error *err) {
    const json_t *pattern = json_object_get(keys, SAC_WINDOW_PATTERN);
    sac_layer_set set = {{0}};
    if (json_is_array(pattern) && json_array_size(pattern) != (size_t)c->decoder.n_layers)
        return sac_fail(err, SAC_BAD_FILE, "\"" SAC_WINDOW_PATTERN "\" lists %zu layers of %d", json_array_size(pattern),
                        c->decoder.n_layers);
    if (!json_is_array(pattern))
        SAC_TRY(sac_config_get_int(keys, SAC_WINDOW_PATTERN, 0, INT32_MAX, &period, err));
    for (int i = 0; i < c->decoder.n_layers; i++) {
        bool yes;
        SAC_TRY(slides_by(pattern, period, i, &yes, err));
        if (yes && c->decoder.sliding_window) sac_layer_set_add(&set, i);
    }
    sac_config_slide(c, &set);
    return SAC_OK;
}

sac_status sac_config_write_window_pattern(const sac_model_config *c, json_t *keys, int period, sac_error *err) {
    const sac_decoder_config *d = &c->decoder;
    bool is_usual = true;
    json_t *flags = json_array();
    for (int i = 0; i < d->n_layers && flags && d->sliding_window; i++) {
        const bool yes = sac_decoder_slides(d, i);
        is_usual &= yes == (i % period < period - 1);
        json_array_append_new(flags, json_boolean(yes));
    }
    const bool failed = !flags || (!is_usual && json_object_set(keys, SAC_WINDOW_PATTERN, flags) != 0);
    json_decref(flags);
    return failed ? sac_fail(err, SAC_NO_MEMORY, "no memory for keys") : SAC_OK;
}
