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

/* ---- GGUF (deepseek2) ---- */

/* What the cache has of all heads together: the latent, and the channels that are turned. */
static sac_status check_gguf_cache(const sac_latent_shape *s, int rope_dim, const json_t *keys, sac_error *err) {
    const struct {
        const char *key;
        int expected;
    } known[] = {{"attention.key_length", s->kv_rank + rope_dim}, {"attention.value_length", s->kv_rank}, {"attention.head_count_kv", 1}};
    if (!json_object_get(keys, "attention.key_length_mla")) return SAC_OK;
    for (size_t i = 0; i < SAC_COUNT(known); i++) {
        int n = known[i].expected;
        SAC_TRY(sac_config_get_int(keys, known[i].key, 1, INT32_MAX, &n, err));
        if (n != known[i].expected)
            return sac_fail(err, SAC_BAD_FILE, "\"%s\" is %d, the latent's sizes make it %d", known[i].key, n, known[i].expected);
    }
    return SAC_OK;
}

/* Lengths of a head's keys and values. Files from before llama.cpp had latents in its cache (2025) say them under the usual names. */
static sac_status read_gguf_lengths(sac_latent_shape *s, const json_t *keys, int *length, sac_error *err) {
    const bool is_new = json_object_get(keys, "attention.key_length_mla") != NULL;
    const struct {
        const char *key;
        int most, *value;
    } needed[] = {{"attention.kv_lora_rank", SAC_CONFIG_MAX_WIDTH, &s->kv_rank},
                  {is_new ? "attention.key_length_mla" : "attention.key_length", SAC_CONFIG_MAX_HEAD_DIM, length},
                  {is_new ? "attention.value_length_mla" : "attention.value_length", SAC_CONFIG_MAX_HEAD_DIM, &s->value_dim}};
    for (size_t i = 0; i < SAC_COUNT(needed); i++) {
        if (!json_object_get(keys, needed[i].key)) return sac_fail(err, SAC_BAD_FILE, "\"%s\" is missing", needed[i].key);
        SAC_TRY(sac_config_get_int(keys, needed[i].key, 1, needed[i].most, needed[i].value, err));
    }
    s->q_rank = 0;
    return sac_config_get_int(keys, "attention.q_lora_rank", 1, SAC_CONFIG_MAX_WIDTH, &s->q_rank, err);
}

static sac_status read_gguf_latents(sac_decoder_config *d, const json_t *keys, sac_error *err) {
    sac_latent_shape *s = &d->latent;
    int length = 0;
    SAC_TRY(read_gguf_lengths(s, keys, &length, err));
    s->rope_dim = d->rope.rot_dim;
    SAC_TRY(check_gguf_cache(s, s->rope_dim, keys, err));
    s->nope_dim = length - s->rope_dim;
    d->head_dim = length;
    if (s->nope_dim < 1)
        return sac_fail(err, SAC_BAD_FILE, "keys of %d channels a head, of which \"rope.dimension_count\" %d are turned", length,
                        s->rope_dim);
    if (s->value_dim > length)
        return sac_fail(err, SAC_UNSUPPORTED, "values of %d channels a head beside keys of %d are not supported", s->value_dim, length);
    return sac_config_check_range("numbers of a latent", sac_latent_width(s), SAC_CONFIG_MAX_WIDTH, err);
}

/* yarn makes more of the scores and leaves cosines and sines as long as they are. */
static sac_status read_gguf_yarn(sac_decoder_config *d, const json_t *keys, sac_error *err) {
    double all = 0, factor = 1, m = 1;
    SAC_TRY(sac_json_get_float(keys, "rope.scaling.yarn_log_multiplier", &all, err));
    SAC_TRY(sac_json_get_float(keys, "rope.scaling.attn_factor", &factor, err));
    if (factor != 1) return sac_fail(err, SAC_UNSUPPORTED, "\"rope.scaling.attn_factor\" is %g; only 1 is supported here", factor);
    if (d->rope.scaling == SAC_ROPE_YARN) {
        SAC_TRY(sac_config_get_positive(keys, "rope.scaling.yarn_beta_fast", &d->rope.beta_fast, err));
        SAC_TRY(sac_config_get_positive(keys, "rope.scaling.yarn_beta_slow", &d->rope.beta_slow, err));
        d->rope.attention_factor = 1;
        if (d->rope.factor > 1) m = all * log(d->rope.factor) + 1;
    }
    d->attention_scale = (float)(m * m / sqrt((double)d->head_dim));
    return sac_config_check_positive("scale of attention", (double)d->attention_scale, err);
}

/* DeepSeek-V2's scores are a softmax, which is supported as of its Lite (deepseek_v2.c). */
static sac_status check_gguf_softmax(const sac_expert_shape *x, sac_error *err) {
    if (!x->n || x->sigmoid) return SAC_OK;
    if (x->n_groups) return sac_fail(err, SAC_UNSUPPORTED, "groups of experts (\"expert_group_count\") are not supported under softmax");
    if (x->factor == 1) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "\"expert_weights_scale\" is %g; only 1 is supported under softmax", (double)x->factor);
}

static sac_status read_gguf(sac_model_config *c, const json_t *keys, sac_error *err) {
    SAC_TRY(read_gguf_latents(&c->decoder, keys, err));
    SAC_TRY(read_gguf_yarn(&c->decoder, keys, err));
    SAC_TRY(sac_config_check_decoder(&c->decoder, err));
    SAC_TRY(sac_config_read_gguf_routed_experts(c, keys, true, err));
    return check_gguf_softmax(&c->decoder.experts, err);
}

const sac_family sac_family_deepseek_v3 = {.name = "deepseek_v3",
                                           .defaults = defaults,
                                           .read = read,
                                           .positions = sac_positions_plain,
                                           .read_gguf = read_gguf,
                                           .gguf_experts = true,
                                           .gguf_latents = true,
                                           .gguf_neighbours = true};
