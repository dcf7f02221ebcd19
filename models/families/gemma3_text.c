/* gemma3_text.c - the text models of Gemma 3 (arXiv:2503.19786): five layers that slide to one that does not, each kind
 * turned by a rope of its own; norms around both parts of a layer and of each head of queries and keys. */
#include "config_values.h"
#include "family.h"
#include "gemma.h"

#define THETA         1e6
#define SLIDING_THETA 1e4

static void defaults(sac_model_config *c) { /* transformers' Gemma3TextConfig */
    c->text_family = &sac_family_gemma3_text;
    c->decoder = (sac_decoder_config){
        .n_layers = 26,
        .hidden = 2304,
        .n_heads = 8,
        .n_kv_heads = 4,
        .head_dim = 256,
        .intermediate = 9216,
        .vocab = 262208,
        .max_position = 131072,
        .sliding_window = 4096,
        .rms_eps = 1e-6f,
        .rope.theta = THETA,
        .two_ropes = true,
    };
    c->qk_norm = true;
    sac_gemma_defaults(c);
}

/* The two ropes as objects of their own, whichever way they are spelled: transformers 4 has "rope_theta" and "rope_scaling"
 * of full layers and "rope_local_base_freq" of those that slide; transformers 5 one object for each kind of layer in
 * "rope_parameters", and takes the older keys for what these leave out. */
typedef struct ropes {
    json_t *full, *sliding; /* the whole object, with "rope_scaling" and "rope_theta" of that rope */
} ropes;

static void free_ropes(ropes *r) {
    json_decref(r->full);
    json_decref(r->sliding);
}

static sac_status get_kind(const json_t *parameters, const char *kind, const json_t **out, sac_error *err) {
    *out = NULL;
    sac_status st = parameters ? sac_json_get_object(parameters, kind, out, err) : SAC_OK;
    return st == SAC_OK ? st : sac_fail_prefix(err, st, "rope_parameters");
}

/* Without the object of a kind "rope_scaling" is put over the default, whose "rope_type" an older "type" does not change. */
static sac_status put_kind(json_t *object, const json_t *kind, const json_t *more, sac_error *err) {
    json_t *all = kind ? json_copy((json_t *)(uintptr_t)kind) : json_pack("{s:s}", "rope_type", "default");
    bool failed = !all || (more && json_object_update(all, (json_t *)(uintptr_t)more) != 0);
    if (!failed && json_object_size(all) > 0) failed = json_object_set(object, "rope_scaling", all) != 0;
    json_decref(all);
    return failed ? sac_fail(err, SAC_NO_MEMORY, "no memory for a configuration") : SAC_OK;
}

static sac_status split_ropes(ropes *r, const json_t *config, sac_error *err) {
    const json_t *scaling = NULL, *parameters = NULL, *full, *sliding;
    SAC_TRY(sac_json_get_object(config, "rope_scaling", &scaling, err));
    SAC_TRY(sac_json_get_object(config, "rope_parameters", &parameters, err));
    SAC_TRY(get_kind(parameters, "full_attention", &full, err));
    SAC_TRY(get_kind(parameters, "sliding_attention", &sliding, err));
    if (json_object_size(parameters) > 0 && !full && !sliding)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"rope_parameters\" has neither \"full_attention\" nor \"sliding_attention\"");
    *r = (ropes){json_copy((json_t *)(uintptr_t)config), json_copy((json_t *)(uintptr_t)config)};
    if (!r->full || !r->sliding) return sac_fail(err, SAC_NO_MEMORY, "no memory for a configuration");
    json_object_del(r->full, "rope_parameters");
    json_object_del(r->full, "rope_scaling");
    json_object_del(r->sliding, "rope_parameters");
    json_object_del(r->sliding, "rope_scaling");
    json_object_del(r->sliding, "rope_theta");
    json_t *local = json_object_get(config, "rope_local_base_freq");
    if (local && json_object_set(r->sliding, "rope_theta", local) != 0)
        return sac_fail(err, SAC_NO_MEMORY, "no memory for a configuration");
    SAC_TRY(put_kind(r->full, full, scaling, err));
    return put_kind(r->sliding, sliding, NULL, err);
}

static sac_status read_sliding(sac_model_config *c, const json_t *object, sac_error *err) {
    sac_decoder_config *d = &c->decoder, check;
    const sac_rope_config full = d->rope;
    d->rope.theta = SLIDING_THETA;
    sac_status st = sac_config_read_rope(c, object, err);
    check = *d;
    d->second_rope = d->rope;
    d->second = d->sliding;
    d->rope = full;
    if (st == SAC_OK) st = sac_config_check_decoder(&check, err);
    if (st == SAC_OK && d->second_rope.scaling == SAC_ROPE_DYNAMIC)
        st = sac_fail(err, SAC_UNSUPPORTED, "rope type \"dynamic\" is supported for full layers only");
    return st == SAC_OK ? st : sac_fail_prefix(err, st, "sliding layers");
}

static sac_status read_with(sac_model_config *c, const ropes *r, sac_error *err) {
    int pattern = 6;
    SAC_TRY(sac_config_get_int(r->full, "sliding_window_pattern", 1, SAC_CONFIG_MAX_LAYERS, &pattern, err));
    SAC_TRY(sac_gemma_read(c, r->full, pattern, err));
    SAC_TRY(sac_config_get_float(r->full, "final_logit_softcapping", &c->decoder.logit_softcap, err));
    return read_sliding(c, r->sliding, err);
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    ropes r = {NULL, NULL};
    sac_status st = split_ropes(&r, config, err);
    if (st == SAC_OK) st = read_with(c, &r, err);
    free_ropes(&r);
    return st;
}

enum { PATTERN = 6, LAYERS_OF_27B = 62 };

/* Another converter's names for what is said by rope.freq_base: without them the file would be read as another model. */
static sac_status check_names(const json_t *keys, sac_error *err) {
    static const char *const others[] = {"rope.global.freq_base", "rope.local.freq_base"};
    for (size_t i = 0; i < SAC_COUNT(others); i++)
        if (json_object_get(keys, others[i]))
            return sac_fail(err, SAC_UNSUPPORTED,
                            "\"%s\" is a key of Ollama's files; those of llama.cpp's converter are read", others[i]);
    if (json_number_value(json_object_get(keys, "attn_logit_softcapping")) == 0) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "\"attn_logit_softcapping\" is supported as 0 only");
}

/* Layers that slide are turned without the scaling of the others. */
static sac_status read_gguf(sac_model_config *c, const json_t *keys, sac_error *err) {
    sac_decoder_config *d = &c->decoder;
    SAC_TRY(check_names(keys, err));
    SAC_TRY(sac_gemma_read_gguf(c, keys, PATTERN, LAYERS_OF_27B, err));
    SAC_TRY(sac_config_get_float(keys, "final_logit_softcapping", &d->logit_softcap, err));
    const int rot_dim = d->rope.rot_dim;
    sac_rope_config_default(&d->second_rope, d->head_dim);
    d->second_rope.rot_dim = rot_dim;
    d->second_rope.theta = SLIDING_THETA;
    d->second = d->sliding;
    return sac_config_get_positive(keys, "rope.freq_base_swa", &d->second_rope.theta, err);
}

static sac_status write_gguf(const sac_model_config *c, json_t *keys, sac_error *err) {
    const sac_decoder_config *d = &c->decoder;
    if (d->sliding_window && d->second_rope.scaling != SAC_ROPE_DEFAULT)
        return sac_fail(err, SAC_UNSUPPORTED, "GGUF cannot say that layers that slide have a scaled rope");
    if (d->sliding_window && d->second_rope.theta != SLIDING_THETA)
        json_object_set_new(keys, "rope.freq_base_swa", json_real(d->second_rope.theta));
    if (d->logit_softcap > 0) json_object_set_new(keys, "final_logit_softcapping", json_real((double)d->logit_softcap));
    return sac_gemma_write_gguf(c, keys, PATTERN, LAYERS_OF_27B, err);
}

const sac_family sac_family_gemma3_text = {.name = "gemma3_text",
                                           .defaults = defaults,
                                           .read = read,
                                           .positions = sac_positions_plain,
                                           .read_gguf = read_gguf,
                                           .write_gguf = write_gguf};
