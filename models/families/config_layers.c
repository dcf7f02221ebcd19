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
