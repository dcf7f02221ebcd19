/* smollm3.c - SmolLM3 (Hugging Face, 2025): Llama with layers that are not turned, every fourth (NoPE, arXiv:2501.18795). */
#include "config_values.h"
#include "family.h"

static void defaults(sac_model_config *c) { /* transformers' SmolLM3Config */
    c->text_family = &sac_family_smollm3;
    c->decoder = (sac_decoder_config){
        .n_layers = 36,
        .hidden = 2048,
        .n_heads = 16,
        .n_kv_heads = 4,
        .intermediate = 11008,
        .vocab = 128256,
        .max_position = 32768,
        .rms_eps = 1e-6f,
        .rope.theta = 2000000,
        .two_ropes = true,
    };
    c->tied_head = true;
    c->default_stop_id = 128001;
}

/* "no_rope_layers" lists 1 for a layer that is turned. */
static sac_status read_still(sac_model_config *c, const json_t *config, sac_error *err) {
    sac_decoder_config *d = &c->decoder;
    const json_t *turned = NULL;
    int interval = 4;
    SAC_TRY(sac_config_get_int(config, "no_rope_layer_interval", 1, INT32_MAX, &interval, err));
    SAC_TRY(sac_json_get_array(config, "no_rope_layers", &turned, err));
    if (turned && json_array_size(turned) < (size_t)d->n_layers)
        return sac_fail(err, SAC_BAD_FILE, "\"no_rope_layers\" lists %zu layers of %d", json_array_size(turned),
                        d->n_layers);
    for (int i = 0; i < d->n_layers; i++) {
        const json_t *v = json_array_get(turned, (size_t)i);
        if (turned && (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > 1))
            return sac_fail(err, SAC_BAD_FILE, "\"no_rope_layers\" must list 0 and 1");
        if (turned ? json_integer_value(v) == 0 : (i + 1) % interval == 0) sac_layer_set_add(&d->second, i);
    }
    d->second_rope = d->rope;
    d->second_rope.scaling = SAC_ROPE_NONE;
    return SAC_OK;
}

/* Where layers are not listed, those that are not turned slide, if any do. */
static sac_status read_window(sac_model_config *c, const json_t *config, sac_error *err) {
    sac_decoder_config *d = &c->decoder;
    bool slides = false;
    SAC_TRY(sac_json_get_bool(config, "use_sliding_window", &slides, err));
    SAC_TRY(sac_json_get_int(config, "sliding_window", 1, INT32_MAX, &d->sliding_window, err));
    const bool has_window = d->sliding_window > 0;
    if (!sac_config_has(config, "layer_types")) {
        const sac_layer_set none = {{0}};
        sac_config_slide(c, slides && has_window ? &d->second : &none);
        return SAC_OK;
    }
    SAC_TRY(sac_config_read_layer_types(c, config, err));
    for (int i = 0; i < d->n_layers; i++)
        if (sac_layer_set_has(&d->sliding, i) && !(slides && has_window))
            return sac_fail(err, SAC_UNSUPPORTED,
                            "\"layer_types\": layer %d slides, without \"use_sliding_window\" and a \"sliding_window\"", i);
    return SAC_OK;
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    SAC_TRY(sac_family_llama.read(c, config, err));
    SAC_TRY(read_still(c, config, err));
    return read_window(c, config, err);
}

/* No key says which layers are not turned: every fourth. */
static sac_status read_gguf(sac_model_config *c, const json_t *keys, sac_error *err) {
    sac_decoder_config *d = &c->decoder;
    (void)keys;
    for (int i = 3; i < d->n_layers; i += 4) sac_layer_set_add(&d->second, i);
    d->second_rope = d->rope;
    d->second_rope.scaling = SAC_ROPE_NONE;
    if (!d->sliding_window) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "\"attention.sliding_window\" of smollm3 is not supported");
}

static sac_status write_gguf(const sac_model_config *c, json_t *keys, sac_error *err) {
    const sac_decoder_config *d = &c->decoder;
    (void)keys;
    for (int i = 0; i < d->n_layers; i++)
        if (sac_layer_set_has(&d->second, i) != (i % 4 == 3))
            return sac_fail(err, SAC_UNSUPPORTED, "GGUF's smollm3 has every fourth layer without rope, and cannot say another choice");
    return d->sliding_window ? sac_fail(err, SAC_UNSUPPORTED, "GGUF's smollm3 has no sliding window") : SAC_OK;
}

const sac_family sac_family_smollm3 = {.name = "smollm3",
                                       .defaults = defaults,
                                       .read = read,
                                       .positions = sac_positions_plain,
                                       .read_gguf = read_gguf,
                                       .write_gguf = write_gguf,
                                       .gguf_neighbours = true};
