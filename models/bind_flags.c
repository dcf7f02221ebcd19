#include "bind_flags.h"

#include <string.h>

bool sac_bind_flag(const sac_model_config *c, const char *when, bool own_head, int layer, bool *out) {
    const sac_decoder_config *d = &c->decoder;
    const bool sparse = layer >= 0 && sac_decoder_is_sparse(d, layer),
               linear = layer >= 0 && sac_decoder_is_linear(d, layer);
    const struct {
        const char *name;
        bool set;
    } flags[] = {
        {"untied", own_head},
        {"attention", !linear},
        {"linear", linear},
        {"qkv_bias", c->qkv_bias && !linear},
        {"o_bias", c->o_bias && !linear},
        {"projector_bias", c->projector_bias},
        {"newline", c->image_newline},
        {"norm_bias", c->projector_norm_bias},
        {"qk_norm", c->qk_norm && !linear},
        {"post_norms", c->post_norms},
        {"pre_norms", !c->no_pre_norms},
        {"experts", sparse},
        {"router_bias", sparse && d->experts.sigmoid},
        {"shared", sparse && d->experts.shared},
        {"shared_gated", sparse && d->experts.shared_gated},
        {"dense", !sparse},
        {"latent_queries", d->latent.q_rank > 0},
        {"latent_query_bias", c->latent_bias && d->latent.q_rank > 0},
        {"latent_bias", c->latent_bias},
        {"tower_qkv_bias", c->tower.qkv_bias},
        {"tower_qk_norm", c->tower.qk_norm},
        {"tower_norm_bias", c->tower.norm_bias},
        {"tower_final_norm", c->tower.final_norm},
    };
    *out = true;
    if (!when) return true;
    for (size_t i = 0; i < SAC_COUNT(flags); i++)
        if (strcmp(when, flags[i].name) == 0) {
            *out = flags[i].set;
            return true;
        }
    return false;
}
