/* eagle_config.c - config.json of an EAGLE-3 head, in both layouts. */
#include "config_keys.h"
#include "config_values.h"
#include "eagle_head.h"

#include <string.h>

/* Which of a model's layers a list names; `behind`: whose outputs, not inputs, are meant. */
static sac_status read_layers(int at[SAC_LAYER_ROWS], const json_t *list, int behind, int n_layers,
                              sac_error *err) {
    static const char key[] = "eagle_aux_hidden_state_layer_ids";
    if (json_array_size(list) != SAC_LAYER_ROWS)
        return sac_fail(err, SAC_UNSUPPORTED, "\"%s\" lists %zu layers; %d are supported", key,
                        json_array_size(list), SAC_LAYER_ROWS);
    for (int i = 0; i < SAC_LAYER_ROWS; i++) {
        const json_t *v = json_array_get(list, (size_t)i);
        const json_int_t n = json_integer_value(v);
        if (!json_is_integer(v) || n < -behind || n >= n_layers - behind)
            return sac_fail(err, SAC_BAD_FILE,
                            "\"%s\" must list numbers of %d to %d, by the model's %d layers", key, -behind,
                            n_layers - 1 - behind, n_layers);
        at[i] = (int)n + behind;
    }
    return SAC_OK;
}

/* Rows are handed out in the order of layers. */
static void sort(int at[SAC_LAYER_ROWS]) {
    for (int i = 1; i < SAC_LAYER_ROWS; i++)
        for (int k = i; k > 0 && at[k - 1] > at[k]; k--) {
            const int other = at[k];
            at[k] = at[k - 1], at[k - 1] = other;
        }
}

/* vLLM, speculators: at the top, layers whose inputs are read. SGLang: in "eagle_config", layers whose outputs are. Neither: what both
 * take by default, and the paper's authors always. */
static sac_status find_layers(sac_eagle_config *e, const json_t *config, int n_layers, sac_error *err) {
    const json_t *list = NULL, *inner = NULL, *nested = NULL;
    bool reads_layers = true;
    SAC_TRY(sac_json_get_array(config, "eagle_aux_hidden_state_layer_ids", &list, err));
    SAC_TRY(sac_json_get_object(config, "eagle_config", &inner, err));
    if (inner) {
        SAC_TRY(sac_json_get_array(inner, "eagle_aux_hidden_state_layer_ids", &nested, err));
        SAC_TRY(sac_json_get_bool(inner, "use_aux_hidden_state", &reads_layers, err));
    }
    if (!reads_layers)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"use_aux_hidden_state\" is false: heads that read three layers are supported");
    if (list || nested) {
        SAC_TRY(read_layers(e->at, list ? list : nested, list ? 0 : 1, n_layers, err));
    } else {
        const int usual[SAC_LAYER_ROWS] = {2, n_layers / 2, n_layers - 3};
        if (n_layers < 5)
            return sac_fail(err, SAC_BAD_FILE,
                            "the model has %d layers, of which a head that names none would read layers 2, "
                            "%d and %d: give "
                            "\"eagle_aux_hidden_state_layer_ids\"",
                            n_layers, usual[1], usual[2]);
        memcpy(e->at, usual, sizeof usual);
    }
    sort(e->at);
    return SAC_OK;
}

static sac_status check_layer(const sac_decoder_config *c, const json_t *object, sac_error *err) {
    const json_t *types = NULL;
    if (c->n_layers != 1)
        return sac_fail(err, SAC_UNSUPPORTED, "\"num_hidden_layers\" is %d; a head of 1 layer is supported",
                        c->n_layers);
    SAC_TRY(sac_json_get_array(object, "layer_types", &types, err));
    const char *type = json_string_value(json_array_get(types, 0));
    if (c->sliding_window || (type && strcmp(type, "full_attention") != 0))
        return sac_fail(err, SAC_UNSUPPORTED,
                        "the head's layer attends to a window; only full attention is supported");
    if (c->rope.scaling == SAC_ROPE_DYNAMIC || c->rope.scaling == SAC_ROPE_LONG)
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "the head's rope scaling depends on the length of a sequence, which is not supported");
    return SAC_OK;
}

static sac_status read_layer(sac_eagle_config *e, const json_t *object, const sac_family *family,
                             sac_error *err) {
    sac_model_config c;
    sac_config_keys keys = {0};
    SAC_TRY(sac_model_config_default(&c, family, err));
    SAC_TRY(family->read(&c, object, err));
    const sac_status st = sac_config_keys_of_config(&keys, family, object, err);
    sac_config_keys_free(&keys);
    SAC_TRY(st);
    e->layer = c.decoder;
    e->qk_norm = c.qk_norm, e->attention_bias = c.qkv_bias;
    return check_layer(&e->layer, object, err);
}

static const sac_family *family_of(const char *type) {
    return !strcmp(type, "llama") ? &sac_family_llama : !strcmp(type, "qwen3") ? &sac_family_qwen3 : NULL;
}

/* Where the layer's keys stand, and as which family's. */
static sac_status find_layer(const json_t *config, const json_t **object, const sac_family **family,
                             bool *is_speculators, sac_error *err) {
    const char *kind = NULL, *type = NULL;
    const json_t *names = NULL;
    SAC_TRY(sac_json_get_string(config, "speculators_model_type", &kind, err));
    *is_speculators = kind != NULL;
    *object = config;
    if (kind) {
        if (strcmp(kind, "eagle3") != 0)
            return sac_fail(err, SAC_UNSUPPORTED,
                            "\"speculators_model_type\" is \"%.40s\"; only eagle3 is supported", kind);
        *object = NULL;
        SAC_TRY(sac_json_get_object(config, "transformer_layer_config", object, err));
        if (!*object) return sac_fail(err, SAC_BAD_FILE, "\"transformer_layer_config\" is missing");
    } else {
        SAC_TRY(sac_json_get_array(config, "architectures", &names, err));
        const char *name = json_string_value(json_array_get(names, 0));
        if (!name ||
            (strcmp(name, "LlamaForCausalLMEagle3") != 0 && strcmp(name, "Eagle3LlamaForCausalLM") != 0))
            return sac_fail(err, SAC_UNSUPPORTED,
                            "\"architectures\" names \"%.60s\", no EAGLE-3 head: LlamaForCausalLMEagle3 or a "
                            "folder of speculators "
                            "is needed",
                            name ? name : "nothing");
    }
    SAC_TRY(sac_json_get_string(*object, "model_type", &type, err));
    if (!type) type = kind ? "qwen3" : "llama"; /* as speculators does */
    *family = family_of(type);
    if (*family) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED,
                    "\"model_type\" is \"%.40s\"; heads of llama's and qwen3's layers are supported", type);
}

static sac_status read_flags(sac_eagle_config *e, const json_t *config, sac_error *err) {
    SAC_TRY(sac_json_get_bool(config, "norm_before_residual", &e->norm_before_residual, err));
    SAC_TRY(sac_json_get_bool(config, "norm_before_fc", &e->norm_before_fc, err));
    SAC_TRY(sac_json_get_bool(config, "fc_norm", &e->fc_norm, err));
    SAC_TRY(sac_json_get_bool(config, "norm_output", &e->norm_output, err));
    if (e->norm_before_fc && e->fc_norm)
        return sac_fail(err, SAC_BAD_FILE,
                        "\"norm_before_fc\" and \"fc_norm\" are both true; one of them may be");
    if (sac_config_has(config, "quantization_config"))
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"quantization_config\": only heads in f32, f16 and bf16 are supported");
    return SAC_OK;
}

sac_status sac_eagle_read_config(sac_eagle_config *e, const json_t *config, const sac_decoder_config *of,
                                 sac_error *err) {
    const json_t *object;
    const sac_family *family;
    bool is_speculators;
    *e = (sac_eagle_config){0};
    SAC_TRY(find_layer(config, &object, &family, &is_speculators, err));
    SAC_TRY(read_layer(e, object, family, err));
    SAC_TRY(read_flags(e, config, err));
    if (e->layer.vocab != of->vocab)
        return sac_fail(err, SAC_BAD_FILE,
                        "\"vocab_size\" is %d, and the model has %d tokens: a head of another model?",
                        e->layer.vocab, of->vocab);
    e->n_draft = is_speculators && e->layer.vocab > 32000 ? 32000 : e->layer.vocab;
    SAC_TRY(sac_config_get_int(config, "draft_vocab_size", 1, e->layer.vocab, &e->n_draft, err));
    e->target_hidden = e->layer.hidden;
    SAC_TRY(
        sac_config_get_int(config, "target_hidden_size", 1, SAC_CONFIG_MAX_WIDTH, &e->target_hidden, err));
    if (e->layer.hidden > SAC_CONFIG_MAX_WIDTH / 2)
        return sac_fail(err, SAC_UNSUPPORTED, "\"hidden_size\" is %d, at most %d is supported: products take twice as many inputs",
                        e->layer.hidden, SAC_CONFIG_MAX_WIDTH / 2);
    if (e->target_hidden > SAC_CONFIG_MAX_WIDTH / SAC_LAYER_ROWS)
        return sac_fail(err, SAC_UNSUPPORTED, "it reads %d rows of %d channels, at most %d are supported", SAC_LAYER_ROWS,
                        e->target_hidden, SAC_CONFIG_MAX_WIDTH / SAC_LAYER_ROWS);
    if (e->target_hidden != of->hidden)
        return sac_fail(
            err, SAC_BAD_FILE,
            "it reads rows of %d channels, and the model's hidden size is %d: a head of another model?",
            e->target_hidden, of->hidden);
    return find_layers(e, config, of->n_layers, err);
}
