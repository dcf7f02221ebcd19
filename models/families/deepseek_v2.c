/* deepseek_v2.c - DeepSeek-V2 and its Lite (arXiv:2405.04434): as DeepSeek-V3 (deepseek_v3.c), but the experts' scores are a softmax of
 * all, which no bias changes. */
#include "deepseek.h"

#include "config_values.h"

#include <string.h>

static void defaults(sac_model_config *c) { /* transformers' DeepseekV2Config */
    sac_family_deepseek_v3.defaults(c);
    c->text_family = &sac_family_deepseek_v2;
    c->decoder.n_layers = 32;
    c->decoder.hidden = 4096;
    c->decoder.n_heads = 32;
    c->decoder.n_kv_heads = 0; /* as many as heads */
    c->decoder.intermediate = 11008;
    c->decoder.vocab = 102400;
    c->decoder.max_position = 2048;
    c->decoder.experts = (sac_expert_shape){.n = 64, .n_used = 0, .intermediate = 1407, .factor = 1};
    c->default_stop_id = 2;
}

/* All experts are one group, and weights are the softmax's. */
static sac_status check_choice(const sac_expert_shape *x, const json_t *config, sac_error *err) {
    const char *method = "greedy";
    SAC_TRY(sac_json_get_string(config, "topk_method", &method, err));
    if (strcmp(method, "greedy") != 0 && (strcmp(method, "group_limited_greedy") != 0 || x->n_groups))
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"topk_method\" \"%.30s\"%s is not supported under softmax; greedy is", method,
                        x->n_groups ? " with groups of experts" : "");
    if (x->n && x->factor != 1)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"routed_scaling_factor\" is %g; only 1 is supported under softmax",
                        (double)x->factor);
    return SAC_OK;
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    sac_expert_shape *x = &c->decoder.experts;
    SAC_TRY(sac_deepseek_read(c, config, err));
    SAC_TRY(sac_config_read_routed_experts(c, config, 2, 0, err));
    SAC_TRY(check_choice(x, config, err));
    x->sigmoid = x->normed = false;
    x->n_groups = x->n_groups_used = 0;
    return SAC_OK;
}

const sac_family sac_family_deepseek_v2 = {
    .name = "deepseek_v2", .defaults = defaults, .read = read, .positions = sac_positions_plain};
