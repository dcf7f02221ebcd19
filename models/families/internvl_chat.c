/* internvl_chat.c - InternVL 2.5, 3 and 3.5 as their authors publish them (InternVLChatModel): the model of internvl.c, whose
 * reader gets what that layout would say. Maths and names: transformers' convert_internvl_weights_to_hf.py and the folders'
 * own code; the picture's token has no id in any file. */
#include "config_values.h"
#include "family.h"

#include <string.h>

static void defaults(sac_model_config *c) {
    sac_family_internvl.defaults(c);
    c->image_mark = "<IMG_CONTEXT>";
    c->dialect = &sac_dialect_internvl_chat;
}

/* InternVisionConfig's. */
static const char usual_tower[] = "{\"image_size\": 224, \"patch_size\": 14, \"hidden_size\": 3200,"
                                  " \"num_attention_heads\": 25, \"intermediate_size\": 12800,"
                                  " \"num_hidden_layers\": 48, \"hidden_act\": \"gelu\","
                                  " \"norm_type\": \"rms_norm\", \"layer_norm_eps\": 1e-6}";

/* vision_config as internvl has it. */
static sac_status convert_tower(const json_t *vision, json_t **out, sac_error *err) {
    const char *type = "intern_vit_6b", *key;
    bool bias = false, qk_norm = true;
    json_t *v;
    SAC_TRY(sac_json_get_string(vision, "model_type", &type, err));
    if (strcmp(type, "intern_vit_6b") != 0)
        return sac_fail(err, SAC_UNSUPPORTED, "model_type \"%.40s\" is not supported under internvl_chat; intern_vit_6b is",
                        type);
    SAC_TRY(sac_json_get_bool(vision, "qkv_bias", &bias, err));
    SAC_TRY(sac_json_get_bool(vision, "qk_normalization", &qk_norm, err));
    json_t *made = json_loads(usual_tower, 0, NULL);
    json_object_foreach((json_t *)(uintptr_t)vision, key, v) {
        if (!json_is_null(v)) json_object_set(made, key, v);
    }
    json_object_set_new(made, "model_type", json_string(sac_tower_internvit.model_type));
    json_object_set_new(made, "attention_bias", json_boolean(bias));
    json_object_set_new(made, "use_qk_norm", json_boolean(qk_norm));
    json_object_set_new(made, "use_mean_pooling", json_true()); /* there is no norm behind the layers */
    *out = made;
    return made ? SAC_OK : sac_fail(err, SAC_NO_MEMORY, "no memory for a configuration");
}

/* What internvl.c has no words for. */
static sac_status check(sac_model_config *c, const json_t *config, const json_t *vision, sac_error *err) {
    const char *order = "v1", *template = "";
    int64_t tower = 224, forced = 0;
    SAC_TRY(sac_json_get_string(config, "ps_version", &order, err));
    SAC_TRY(sac_json_get_string(config, "template", &template, err));
    SAC_TRY(sac_json_get_int(vision, "image_size", 1, SAC_CONFIG_MAX_IMAGE, &tower, err));
    SAC_TRY(sac_json_get_int(config, "force_image_size", 1, SAC_CONFIG_MAX_IMAGE, &forced, err));
    if (strcmp(order, "v2") != 0) /* v1, also where there is no key, exchanges rows and columns */
        return sac_fail(err, SAC_UNSUPPORTED, "\"ps_version\" is \"%.20s\"; v2 is supported", order);
    if (forced && forced != tower)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"force_image_size\" is %lld, but the tower has positions for %lld; they are not resized here",
                        (long long)forced, (long long)tower);
    if (strcmp(template, "internvl2_5") != 0)
        return sac_fail(err, SAC_UNSUPPORTED, "\"template\" is \"%.40s\"; internvl2_5 is supported", template);
    snprintf(c->default_chat, sizeof c->default_chat, "%s", template);
    return SAC_OK;
}

/* internvl's reader names the object as its own layout does. */
static sac_status rename_prefix(sac_error *err, sac_status st) {
    static const char was[] = "text_config: ", is[] = "llm_config: ";
    if (st == SAC_OK || !err || strncmp(err->text, was, sizeof was - 1) != 0) return st;
    char *rest = err->text + sizeof was - 1;
    memmove(err->text + sizeof is - 1, rest, strlen(rest) + 1);
    memcpy(err->text, is, sizeof is - 1);
    return st;
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    const json_t *vision = NULL, *text = NULL;
    json_t *tower = NULL;
    double ratio = 0.5;
    int64_t layer = -1;
    SAC_TRY(sac_json_get_object(config, "vision_config", &vision, err));
    SAC_TRY(sac_json_get_object(config, "llm_config", &text, err));
    if (!vision || !text)
        return sac_fail(err, SAC_BAD_FILE, "\"%s\" is missing", vision ? "llm_config" : "vision_config");
    SAC_TRY(sac_json_get_float(config, "downsample_ratio", &ratio, err));
    SAC_TRY(sac_json_get_int(config, "select_layer", -SAC_CONFIG_MAX_LAYERS, SAC_CONFIG_MAX_LAYERS, &layer, err));
    int n_layers = 48;
    SAC_TRY(sac_config_get_int(vision, "num_hidden_layers", 1, SAC_CONFIG_MAX_LAYERS, &n_layers, err));
    if (layer > n_layers || layer < -n_layers - 1)
        return sac_fail(err, SAC_BAD_FILE, "\"select_layer\" is %lld, but the tower has %d layers", (long long)layer,
                        n_layers);
    SAC_TRY(check(c, config, vision, err));
    sac_status st = convert_tower(vision, &tower, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "vision_config");
    json_t *twin = json_pack("{s:O, s:o, s:f, s:I, s:i, s:b}", "text_config", text, "vision_config", tower,
                             "downsample_ratio", ratio, "vision_feature_layer", (json_int_t)layer, "image_token_id", 0,
                             "tie_word_embeddings", 0);
    if (!twin) return sac_fail(err, SAC_NO_MEMORY, "no memory for a configuration");
    st = rename_prefix(err, sac_family_internvl.read(c, twin, err));
    json_decref(twin);
    return st;
}

const sac_family sac_family_internvl_chat = {.name = "internvl_chat",
                                             .defaults = defaults,
                                             .read = read,
                                             .positions = sac_positions_plain};
