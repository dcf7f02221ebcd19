/* ministral3.c - Ministral 3 (2025): Mistral with rope by YaRN, whose queries are scaled by 1 + beta ln(1 + floor(p / n)) at
 * position p, n the context before YaRN. Within n tokens that is 1; a beta is supported for as long a context. */
#include "config_values.h"
#include "family.h"

static void defaults(sac_model_config *c) { /* transformers' Ministral3Config */
    c->text_family = &sac_family_ministral3;
    c->decoder = (sac_decoder_config){
        .n_layers = 34,
        .hidden = 4096,
        .n_heads = 32,
        .n_kv_heads = 8,
        .head_dim = 128,
        .intermediate = 14336,
        .vocab = 131072,
        .max_position = 262144,
        .rms_eps = 1e-5f,
        .rope.theta = 10000,
    };
    c->default_stop_id = 2;
}

/* Where config.json says nothing of ropes. */
static json_t *default_ropes(void) {
    return json_pack("{s:s, s:f, s:f, s:i, s:f, s:f, s:f, s:f, s:f}", "type", "yarn", "rope_theta", 1e6,
                     "factor", 16.0, "original_max_position_embeddings", 16384, "beta_fast", 32.0,
                     "beta_slow", 1.0, "mscale_all_dim", 1.0, "mscale", 1.0, "llama_4_scaling_beta", 0.1);
}

static const json_t *ropes_of(const json_t *config) {
    const json_t *p = json_object_get(config, "rope_scaling");
    return json_object_size(p) ? p : json_object_get(config, "rope_parameters");
}

/* Longer contexts than those in which queries are not scaled are left out of what the model says it can do. */
static sac_status read_scale(sac_model_config *c, const json_t *ropes, sac_error *err) {
    double beta = 0, before = 0;
    if (!sac_config_has(ropes, "llama_4_scaling_beta") ||
        !sac_config_has(ropes, "original_max_position_embeddings"))
        return sac_fail(
            err, SAC_BAD_FILE,
            "\"rope_parameters\" needs \"llama_4_scaling_beta\" and \"original_max_position_embeddings\"");
    SAC_TRY(sac_json_get_float(ropes, "llama_4_scaling_beta", &beta, err));
    SAC_TRY(sac_config_get_positive(ropes, "original_max_position_embeddings", &before, err));
    if (beta == 0 || before >= c->decoder.max_position) return SAC_OK;
    c->decoder.max_position = c->decoder.most_context = before < 1 ? 1 : (int64_t)before;
    return SAC_OK;
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    json_t *own = NULL;
    if (!json_object_size(ropes_of(config))) {
        own = json_copy((json_t *)(uintptr_t)config);
        if (!own || json_object_set_new(own, "rope_parameters", default_ropes()) != 0) {
            json_decref(own);
            return sac_fail(err, SAC_NO_MEMORY, "no memory for \"rope_parameters\"");
        }
        json_object_del(own, "rope_scaling");
        config = own;
    }
    SAC_TRY(sac_json_get_int(config, "sliding_window", 1, INT32_MAX, &c->decoder.sliding_window, err));
    sac_status st = sac_config_read_decoder(c, config, err);
    if (st == SAC_OK) st = read_scale(c, ropes_of(config), err);
    json_decref(own);
    return st;
}

const sac_family sac_family_ministral3 = {
    .name = "ministral3", .defaults = defaults, .read = read, .positions = sac_positions_plain};
