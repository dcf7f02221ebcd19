/* olmo2.c - OLMo 2 (arXiv:2501.00656): norms behind the parts of a layer and none before them, and of all heads of queries
 * and of keys together. */
#include "family.h"

static void defaults(sac_model_config *c) { /* transformers' Olmo2Config */
    c->text_family = &sac_family_olmo2;
    c->decoder = (sac_decoder_config){
        .n_layers = 32,
        .hidden = 4096,
        .n_heads = 32,
        .intermediate = 11008,
        .vocab = 50304,
        .max_position = 2048,
        .rms_eps = 1e-5f,
        .rope.theta = 10000,
        .whole_qk_norm = true,
    };
    c->qk_norm = c->post_norms = c->no_pre_norms = true;
    c->default_stop_id = 50279;
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    return sac_family_llama.read(c, config, err); /* the same keys */
}

/* Files of OLMo 3 have the same architecture's name. */
static sac_status read_gguf(sac_model_config *c, const json_t *keys, sac_error *err) {
    (void)keys;
    if (!c->decoder.sliding_window) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "\"attention.sliding_window\" of olmo2 (OLMo 3) is not supported; OLMo 2 has none");
}

const sac_family sac_family_olmo2 = {
    .name = "olmo2", .defaults = defaults, .read = read, .positions = sac_positions_plain, .read_gguf = read_gguf};
