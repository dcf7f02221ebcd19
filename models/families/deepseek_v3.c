/* deepseek_v3.c - DeepSeek-V3 and R1, Moonlight (arXiv:2412.19437, sec. 2.1): keys and values made of latents, and behind the first
 * layers experts whose scores are their own, beside a shared one. */
#include "deepseek.h"

#include "config_values.h"

#include <math.h>

static void defaults(sac_model_config *c) { /* transformers' DeepseekV3Config */
    c->text_family = &sac_family_deepseek_v3;
    c->decoder = (sac_decoder_config){
        .n_layers = 61,
        .hidden = 7168,
        .n_heads = 128,
        .n_kv_heads = 128,
        .intermediate = 18432,
        .vocab = 129280,
        .max_position = 4096,
        .rms_eps = 1e-6f,
        .rope = {.theta = 10000, .interleaved = true},
        .latent = {.kv_rank = 512, .q_rank = 1536, .rope_dim = 64, .nope_dim = 128, .value_dim = 128},
        .experts = {.n = 256,
                    .n_used = 8,
                    .intermediate = 2048,
                    .normed = true,
                    .factor = 2.5f,
                    .n_groups = 8,
                    .n_groups_used = 4},
    };
    c->default_stop_id = 1;
}

static sac_status read_sizes(sac_latent_shape *s, const json_t *config, sac_error *err) {
    const struct {
        const char *key;
        int most, *value;
    } sizes[] = {{"kv_lora_rank", SAC_CONFIG_MAX_WIDTH, &s->kv_rank},
                 {"q_lora_rank", SAC_CONFIG_MAX_WIDTH, &s->q_rank},
                 {"qk_rope_head_dim", SAC_CONFIG_MAX_HEAD_DIM, &s->rope_dim},
                 {"qk_nope_head_dim", SAC_CONFIG_MAX_HEAD_DIM, &s->nope_dim},
                 {"v_head_dim", SAC_CONFIG_MAX_HEAD_DIM, &s->value_dim}};
    for (size_t i = 0; i < SAC_COUNT(sizes); i++)
        SAC_TRY(sac_config_get_int(config, sizes[i].key, 1, sizes[i].most, sizes[i].value, err));
    if (json_is_null(json_object_get(config, "q_lora_rank"))) s->q_rank = 0;
    if (s->value_dim <= s->rope_dim + s->nope_dim)
        return sac_config_check_range("numbers of a latent", sac_latent_width(s), SAC_CONFIG_MAX_WIDTH, err);
    return sac_fail(err, SAC_UNSUPPORTED,
                    "values of %d channels a head (\"v_head_dim\") beside keys of %d are not supported",
                    s->value_dim, s->rope_dim + s->nope_dim);
}

/* What scores are multiplied with: yarn's mscale_all_dim makes more of it, whatever the kind of scaling. */
static sac_status read_scale(sac_decoder_config *d, const json_t *config, sac_error *err) {
    const json_t *p;
    double all = 0, m = 1;
    SAC_TRY(sac_config_rope_object(&p, config, err));
    if (p && d->rope.scaling != SAC_ROPE_DEFAULT) SAC_TRY(sac_json_get_float(p, "mscale_all_dim", &all, err));
    if (all != 0 && d->rope.factor > 1) m = 0.1 * all * log(d->rope.factor) + 1;
    d->attention_scale = (float)(m * m / sqrt((double)d->head_dim));
    return sac_config_check_positive("scale of attention", (double)d->attention_scale, err);
}

sac_status sac_deepseek_read(sac_model_config *c, const json_t *config, sac_error *err) {
    sac_decoder_config *d = &c->decoder;
    bool interleaved = d->rope.interleaved;
    SAC_TRY(sac_json_get_bool(config, "attention_bias", &c->latent_bias, err));
    c->o_bias = c->latent_bias;
    SAC_TRY(sac_json_get_bool(config, "rope_interleave", &interleaved, err));
    SAC_TRY(read_sizes(&d->latent, config, err));
    d->head_dim = d->latent.rope_dim; /* as rope has it */
    SAC_TRY(sac_config_read_decoder(c, config, err));
    if (d->head_dim != d->latent.rope_dim)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"head_dim\" %d beside \"qk_rope_head_dim\" %d is not supported", d->head_dim,
                        d->latent.rope_dim);
    if (d->n_kv_heads != d->n_heads)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "%d key-value heads of %d heads: where latents make them, a head has its own",
                        d->n_kv_heads, d->n_heads);
    d->rope.interleaved = interleaved;
    d->head_dim = d->latent.rope_dim + d->latent.nope_dim;
    SAC_TRY(read_scale(d, config, err));
    return sac_config_check_decoder(d, err);
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    SAC_TRY(sac_deepseek_read(c, config, err));
    return sac_config_read_routed_experts(c, config, 1, 3, err);
}

const sac_family sac_family_deepseek_v3 = {
    .name = "deepseek_v3", .defaults = defaults, .read = read, .positions = sac_positions_plain};
