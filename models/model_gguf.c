/* model_gguf.c - a language model in one GGUF file, as llama.cpp's converters write it: metadata instead of
 * config.json, the tokenizer inside (model_gguf_text.c). Its vision half is a file of its own (model_mmproj.c).
 * What only some families say is theirs to read (read_gguf in family.h). In files of some (llama, Mistral's too) the rows
 * of the query and key weights are permuted, so that rope turns neighbouring channels: rope.interleaved. */
#include "binder.h"
#include "config_values.h"
#include "expert_tensors.h"
#include "family.h"
#include "gguf.h"
#include "language_tensors.h"
#include "model_load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define KEY_BYTES 96

typedef struct reader {
    sac_load_context *l;
    sac_gguf g;
    const sac_family *family; /* of the text */
    sac_gguf_language language;
    char arch[32];
    char key[KEY_BYTES];
} reader;

/* "llama.rope.freq_base" in r->key. */
static const char *arch_key(reader *r, const char *name) {
    snprintf(r->key, sizeof r->key, "%s.%s", r->arch, name);
    return r->key;
}

static sac_status get_int(reader *r, const char *name, int64_t min, int64_t max, int *value) {
    int64_t n = *value;
    SAC_TRY(sac_gguf_get_int(&r->g, arch_key(r, name), min, max, &n, r->l->err));
    *value = (int)n;
    return SAC_OK;
}

static sac_status need_int(reader *r, const char *name, int *value) {
    if (!sac_gguf_find(&r->g, arch_key(r, name)))
        return sac_fail(r->l->err, SAC_BAD_FILE, "metadata key %s is missing", r->key);
    return get_int(r, name, 1, INT32_MAX, value);
}

/* ---- shape ---- */

/* Heads as wide as rope has them, each with keys and values of its own: what the file says of these is of latents, for the family
 * to read. */
static sac_status read_latent_heads(reader *r, sac_decoder_config *d) {
    SAC_TRY(need_int(r, "rope.dimension_count", &d->head_dim));
    d->n_kv_heads = d->n_heads;
    return SAC_OK;
}

static sac_status read_heads(reader *r, sac_decoder_config *d) {
    d->n_kv_heads = d->n_heads;
    SAC_TRY(get_int(r, "attention.head_count_kv", 1, INT32_MAX, &d->n_kv_heads));
    d->head_dim = d->hidden / d->n_heads;
    if (!sac_gguf_find(&r->g, arch_key(r, "attention.key_length")) && d->hidden % d->n_heads != 0)
        return sac_fail(r->l->err, SAC_BAD_FILE, "%s.embedding_length %d is not a multiple of the %d heads",
                        r->arch, d->hidden, d->n_heads);
    SAC_TRY(get_int(r, "attention.key_length", 1, INT32_MAX, &d->head_dim));
    int value_dim = d->head_dim;
    SAC_TRY(get_int(r, "attention.value_length", 1, INT32_MAX, &value_dim));
    if (value_dim == d->head_dim) return SAC_OK;
    return sac_fail(r->l->err, SAC_UNSUPPORTED, "values of %d channels beside keys of %d are not supported", value_dim,
                    d->head_dim);
}

static sac_status read_sizes(reader *r, sac_decoder_config *d) {
    SAC_TRY(need_int(r, "block_count", &d->n_layers));
    SAC_TRY(need_int(r, "embedding_length", &d->hidden));
    if (!r->family->gguf_all_sparse) SAC_TRY(need_int(r, "feed_forward_length", &d->intermediate));
    SAC_TRY(need_int(r, "attention.head_count", &d->n_heads));
    SAC_TRY((r->family->gguf_latents ? read_latent_heads : read_heads)(r, d));
    const bool has_experts = d->experts.n > 0 || r->family->gguf_experts; /* its family's models do */
    int n_experts = 0;
    SAC_TRY(get_int(r, "expert_count", 0, INT32_MAX, &n_experts));
    if (n_experts && !has_experts)
        return sac_fail(r->l->err, SAC_UNSUPPORTED, "mixtures of experts (%s) are not supported under %s", r->key, r->arch);
    SAC_TRY(
        sac_gguf_get_int(&r->g, arch_key(r, "context_length"), 1, INT32_MAX, &d->max_position, r->l->err));
    d->sliding_window = 0;
    SAC_TRY(sac_gguf_get_int(&r->g, arch_key(r, "attention.sliding_window"), 0, INT32_MAX, &d->sliding_window,
                             r->l->err));
    double eps = (double)d->rms_eps;
    SAC_TRY(sac_gguf_get_float(&r->g, arch_key(r, "attention.layer_norm_rms_epsilon"), &eps, r->l->err));
    d->rms_eps = (float)eps;
    const sac_checkpoint_tensor *embed = sac_checkpoint_find(&r->l->files->weights, "token_embd.weight");
    if (!embed)
        return sac_fail(r->l->err, SAC_BAD_FILE, "tensor token_embd.weight is missing: a vocabulary only?");
    d->vocab = embed->dim[0] > INT32_MAX ? INT32_MAX : (int)embed->dim[0];
    return SAC_OK;
}

/* Pairs of channels that turn by each axis (M-RoPE); a fourth number, for an axis that no model here has, is 0. They
 * matter where pictures are seen. */
static sac_status read_sections(reader *r, const sac_rope_config *rope) {
    int32_t *items;
    size_t n;
    int64_t sum = 0;
    SAC_TRY(sac_gguf_get_ints(&r->g, arch_key(r, "rope.dimension_sections"), &items, &n, r->l->err));
    if (!items) return SAC_OK;
    bool ok = n == SAC_POSITION_AXES || n == SAC_POSITION_AXES + 1;
    for (size_t i = 0; i < n && ok; i++) {
        ok = items[i] >= 0 && (i < SAC_POSITION_AXES || items[i] == 0);
        sum += items[i];
        if (ok && i < SAC_POSITION_AXES) r->language.sections[i] = items[i];
    }
    free(items);
    r->language.has_sections = true;
    if (ok && sum == rope->rot_dim / 2) return SAC_OK;
    return sac_fail(r->l->err, SAC_BAD_FILE,
                    "%s must be three numbers that add up to the %d pairs of channels of a head, and a 0",
                    r->key, rope->rot_dim / 2);
}

/* Divisors of the inverse frequencies, one a channel pair: how converters write Llama 3.1's scaling. */
static sac_status read_freq_factors(reader *r, sac_rope_config *rope) {
    const sac_checkpoint_tensor *t = sac_checkpoint_find(&r->l->files->weights, "rope_freqs.weight");
    if (!t) return SAC_OK;
    if (t->dtype != SAC_DTYPE_F32 || t->n_dims != 1 || t->dim[0] != rope->rot_dim / 2)
        return sac_fail(r->l->err, SAC_BAD_FILE, "tensor rope_freqs.weight must be %d f32 values",
                        rope->rot_dim / 2);
    for (int64_t i = 0; i < t->dim[0]; i++) {
        float f;
        memcpy(&f, t->data + 4 * i, 4);
        if (!isfinite(f) || f <= 0)
            return sac_fail(r->l->err, SAC_BAD_FILE,
                            "tensor rope_freqs.weight holds a value that is not positive");
    }
    /* the data start is aligned to at least 8 bytes, so this may be read in place */
    rope->freq_factors = (const float *)(const void *)t->data;
    return SAC_OK;
}

/* LongRoPE's divisors: [rot_dim / 2]. */
static sac_status read_divisors(reader *r, const char *name, int n, float *out) {
    const sac_checkpoint_tensor *t = sac_checkpoint_find(&r->l->files->weights, name);
    if (!t) return sac_fail(r->l->err, SAC_BAD_FILE, "tensor %s is missing", name);
    if (n > SAC_ROPE_MOST_FACTORS)
        return sac_fail(r->l->err, SAC_UNSUPPORTED, "tensor %s: %d channels of a head are turned; %d at most are supported", name, 2 * n,
                        2 * SAC_ROPE_MOST_FACTORS);
    if (t->dtype != SAC_DTYPE_F32 || t->n_dims != 1 || t->dim[0] != n)
        return sac_fail(r->l->err, SAC_BAD_FILE, "tensor %s must be %d f32 values", name, n);
    memcpy(out, t->data, (size_t)n * sizeof *out);
    for (int i = 0; i < n; i++)
        if (!(out[i] > 1e-6f && out[i] < 1e6f))
            return sac_fail(r->l->err, SAC_BAD_FILE, "tensor %s: value %d must be of 1e-6 to 1e6", name, i);
    return SAC_OK;
}

/* Which of the two a sequence is turned by is its length's to say, as in transformers; llama.cpp goes by the context's. */
static sac_status read_long_rope(reader *r, sac_rope_config *rope) {
    const sac_checkpoint *weights = &r->l->files->weights;
    if (!sac_checkpoint_find(weights, "rope_factors_long.weight") && !sac_checkpoint_find(weights, "rope_factors_short.weight"))
        return SAC_OK;
    if (!r->l->config.may_be_long || rope->scaling != SAC_ROPE_DEFAULT)
        return sac_fail(r->l->err, SAC_UNSUPPORTED, "tensor rope_factors_long.weight: LongRoPE is not supported %s",
                        r->l->config.may_be_long ? "beside another rope.scaling.type" : "in this architecture");
    rope->scaling = SAC_ROPE_LONG;
    rope->attention_factor = 1;
    SAC_TRY(read_divisors(r, "rope_factors_long.weight", rope->rot_dim / 2, rope->long_factors));
    SAC_TRY(read_divisors(r, "rope_factors_short.weight", rope->rot_dim / 2, rope->short_factors));
    SAC_TRY(sac_gguf_get_float(&r->g, arch_key(r, "rope.scaling.original_context_length"), &rope->original_max_position, r->l->err));
    SAC_TRY(sac_gguf_get_float(&r->g, arch_key(r, "rope.scaling.attn_factor"), &rope->attention_factor, r->l->err));
    return sac_config_check_positive(r->key, rope->attention_factor, r->l->err);
}

static sac_status read_rope(reader *r, sac_decoder_config *d) {
    sac_rope_config *rope = &d->rope;
    sac_error *err = r->l->err;
    sac_rope_config_default(rope, d->head_dim);
    rope->interleaved = r->family->gguf_neighbours;
    rope->original_max_position = (double)d->max_position;
    SAC_TRY(get_int(r, "rope.dimension_count", 2, INT32_MAX, &rope->rot_dim));
    SAC_TRY(sac_gguf_get_float(&r->g, arch_key(r, "rope.freq_base"), &rope->theta, err));
    SAC_TRY(read_freq_factors(r, rope));
    SAC_TRY(read_sections(r, rope));
    /* llama.cpp's rule: an unnamed type is linear, and scale_linear is the factor's old name */
    bool scaled = sac_gguf_find(&r->g, arch_key(r, "rope.scaling.factor"));
    const char *factor = scaled ? "rope.scaling.factor" : "rope.scale_linear";
    scaled = scaled || sac_gguf_find(&r->g, arch_key(r, factor));
    sac_text_span type = {scaled ? "linear" : "none", scaled ? 6 : 4};
    SAC_TRY(sac_gguf_get_string(&r->g, arch_key(r, "rope.scaling.type"), &type, err));
    bool linear = type.n_bytes == 6 && memcmp(type.text, "linear", 6) == 0;
    bool yarn = type.n_bytes == 4 && memcmp(type.text, "yarn", 4) == 0;
    const bool is_long = r->l->config.may_be_long && type.n_bytes == 8 && memcmp(type.text, "longrope", 8) == 0;
    if (!linear && !yarn && !is_long && !(type.n_bytes == 4 && memcmp(type.text, "none", 4) == 0))
        return sac_fail(err, SAC_UNSUPPORTED, "%s \"%.*s\" is not supported (none, linear and yarn are)",
                        r->key, type.n_bytes > 30 ? 30 : (int)type.n_bytes, type.text);
    if (linear || yarn) SAC_TRY(sac_gguf_get_float(&r->g, arch_key(r, factor), &rope->factor, err));
    if (rope->factor == 0) rope->factor = 1; /* llama.cpp: not scaled */
    if (!(rope->factor > 0))
        return sac_fail(err, SAC_BAD_FILE, "%s is %g, must be positive", r->key, rope->factor);
    rope->scaling = linear ? SAC_ROPE_LINEAR : yarn ? SAC_ROPE_YARN : SAC_ROPE_DEFAULT;
    SAC_TRY(read_long_rope(r, rope));
    if (!yarn) return SAC_OK;
    double scale = 1; /* on top of yarn's own factor, unlike transformers' attention_factor */
    SAC_TRY(sac_gguf_get_float(&r->g, arch_key(r, "rope.scaling.original_context_length"),
                               &rope->original_max_position, err));
    SAC_TRY(sac_gguf_get_float(&r->g, arch_key(r, "rope.scaling.attn_factor"), &scale, err));
    rope->attention_factor = scale * (rope->factor <= 1 ? 1 : 0.1 * log(rope->factor) + 1);
    return rope->attention_factor > 0 ? SAC_OK : sac_fail(err, SAC_BAD_FILE, "%s must be positive", r->key);
}

/* ---- what ends an answer ---- */

static sac_status read_stop_ids(reader *r) {
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    sac_model_config *c = &r->l->config;
    for (size_t i = 0; i < SAC_COUNT(keys); i++) {
        int64_t id;
        SAC_TRY(sac_gguf_get_id(&r->g, keys[i], &id, r->l->err));
        if (id >= 0 && id < c->decoder.vocab) c->stop_ids[c->n_stop_ids++] = (int32_t)id;
    }
    return SAC_OK;
}

/* ---- the whole ---- */

static bool has_router_bias(const reader *r) {
    char name[48];
    bool there = false;
    for (int i = 0; i < r->l->config.decoder.n_layers && !there; i++) {
        snprintf(name, sizeof name, "blk.%d.exp_probs_b.bias", i);
        there = sac_checkpoint_find(&r->l->files->weights, name) != NULL;
    }
    return there;
}

/* What the family's own keys say; c is in range, and is afterwards. */
static sac_status read_own_keys(reader *r) {
    sac_model_config *c = &r->l->config;
    json_t *keys = NULL;
    if (!r->family->read_gguf) return SAC_OK;
    sac_status st = sac_gguf_keys(&keys, &r->g, arch_key(r, ""), r->l->err);
    if (st == SAC_OK && has_router_bias(r)) json_object_set_new(keys, "exp_probs_b", json_true());
    if (st == SAC_OK) st = r->family->read_gguf(c, keys, r->l->err);
    json_decref(keys);
    return st;
}

static sac_status read_config(reader *r) {
    sac_model_config *c = &r->l->config;
    sac_error *err = r->l->err;
    const char *arch;
    char name[sizeof r->arch];
    SAC_TRY(sac_gguf_get_name(&r->g, "general.architecture", name, sizeof name, &arch, err));
    if (!arch) return sac_fail(err, SAC_BAD_FILE, "metadata key general.architecture is missing");
    memcpy(r->arch, name, sizeof name);
    int64_t n_splits = 1;
    SAC_TRY(sac_gguf_get_int(&r->g, "split.count", 0, INT32_MAX, &n_splits, err));
    if (n_splits > 1)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "one of %lld parts of a model; join them first (llama-gguf-split --merge)",
                        (long long)n_splits);
    SAC_TRY(sac_family_of_gguf(&r->family, arch, err));
    SAC_TRY(sac_model_config_default(c, r->family, err));
    r->language.architecture = r->arch;
    r->language.n_deep = -1;
    SAC_TRY(sac_gguf_get_int(&r->g, arch_key(r, "n_deepstack_layers"), 0, SAC_TOWER_MAX_FEATURE_LAYERS,
                             &r->language.n_deep, err));
    int is_causal = 1;
    SAC_TRY(sac_gguf_get_bool(&r->g, arch_key(r, "attention.causal"), &is_causal, err));
    if (!is_causal)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "%s is false; only models whose tokens attend to earlier ones are supported", r->key);
    SAC_TRY(read_sizes(r, &c->decoder));
    SAC_TRY(read_rope(r, &c->decoder));
    SAC_TRY(sac_config_check_decoder(&c->decoder, err));
    SAC_TRY(read_own_keys(r));
    return read_stop_ids(r);
}

/* "general.sampling.*", which llama.cpp takes as defaults. A temperature there asks for sampling. */
static sac_status read_sampling(reader *r) {
    sac_generation_config *g = &r->l->m->generation;
    sac_error *err = r->l->err;
    int64_t top_k = g->top_k;
    bool has_temp = sac_gguf_find(&r->g, "general.sampling.temp") != NULL;
    SAC_TRY(sac_gguf_get_float(&r->g, "general.sampling.temp", &g->temperature, err));
    SAC_TRY(sac_gguf_get_int(&r->g, "general.sampling.top_k", 0, INT32_MAX, &top_k, err));
    SAC_TRY(sac_gguf_get_float(&r->g, "general.sampling.top_p", &g->top_p, err));
    SAC_TRY(sac_gguf_get_float(&r->g, "general.sampling.min_p", &g->min_p, err));
    SAC_TRY(sac_gguf_get_float(&r->g, "general.sampling.penalty_repeat", &g->repetition_penalty, err));
    SAC_TRY(sac_gguf_get_float(&r->g, "general.sampling.xtc_probability", &g->controls.xtc_probability, err));
    SAC_TRY(sac_gguf_get_float(&r->g, "general.sampling.xtc_threshold", &g->controls.xtc_threshold, err));
    SAC_TRY(sac_gguf_get_int(&r->g, "general.sampling.mirostat", 0, 2, &g->controls.mirostat, err));
    SAC_TRY(sac_gguf_get_float(&r->g, "general.sampling.mirostat_tau", &g->controls.mirostat_tau, err));
    SAC_TRY(sac_gguf_get_float(&r->g, "general.sampling.mirostat_eta", &g->controls.mirostat_eta, err));
    g->top_k = (int)top_k;
    g->do_sample = has_temp && g->temperature > 0;
    if (!(g->temperature >= 0 && g->temperature <= 100) || !(g->top_p > 0 && g->top_p <= 1) ||
        !(g->min_p >= 0 && g->min_p <= 1) || !(g->repetition_penalty > 0 && g->repetition_penalty <= 100) ||
        !(g->controls.xtc_probability >= 0 && g->controls.xtc_probability <= 1) ||
        !(g->controls.xtc_threshold >= 0 && g->controls.xtc_threshold <= 1) ||
        !(g->controls.mirostat_tau >= 0 && g->controls.mirostat_tau <= 100) ||
        !(g->controls.mirostat_eta >= 0 && g->controls.mirostat_eta <= 10))
        return sac_fail(err, SAC_BAD_FILE, "a metadata key general.sampling.* is out of range");
    return SAC_OK;
}

/* Names with "arch" in the place of the architecture, as the family's YAML has them. */
static sac_status list_keys(reader *r) {
    size_t n = strlen(r->arch);
    char name[KEY_BYTES];
    json_t *names = json_object();
    sac_status st = names ? SAC_OK : sac_fail(r->l->err, SAC_NO_MEMORY, "no memory for the keys");
    for (size_t i = 0; i < r->g.n_values && st == SAC_OK; i++) {
        const sac_text_span *key = &r->g.values[i].key;
        bool own = key->n_bytes > n && memcmp(key->text, r->arch, n) == 0 && key->text[n] == '.';
        size_t skip = own ? n : 0;
        snprintf(name, sizeof name, "%s%.*s", own ? "arch" : "",
                 (int)(key->n_bytes - skip > 80 ? 80 : key->n_bytes - skip), key->text + skip);
        json_object_set_new(names, name, json_true()); /* a name that is no text is left out */
    }
    if (st == SAC_OK)
        st = sac_config_keys_of_object(&r->l->m->keys, r->family, "gguf", "GGUF", names, r->l->err);
    json_decref(names);
    sac_config_keys *keys = &r->l->m->keys;
    for (int i = 0; i < keys->n; i++)
        if (strncmp(keys->item[i].name, "arch.", 5) == 0) {
            snprintf(name, sizeof name, "%.80s", keys->item[i].name + 4);
            snprintf(keys->item[i].name, sizeof keys->item[i].name, "%s%s", r->arch, name);
        }
    return st;
}

/* No key announces biases, nor norms of heads: the tensors do. */
static sac_status find_biases(reader *r, const sac_bind_source *source) {
    sac_model_config *c = &r->l->config;
    bool there;
    SAC_TRY(sac_bind_has(&there, c, source, "layer.q_bias", r->l->err));
    c->qkv_bias |= there;
    SAC_TRY(sac_bind_has(&there, c, source, "layer.o_bias", r->l->err));
    c->o_bias |= there;
    SAC_TRY(sac_bind_has(&there, c, source, "layer.q_norm", r->l->err));
    c->qk_norm |= there;
    if (sac_checkpoint_find(source->weights, "blk.0.ffn_down.bias") ||
        sac_checkpoint_find(source->weights, "blk.0.ffn_up.bias") ||
        sac_checkpoint_find(source->weights, "blk.0.ffn_gate.bias"))
        return sac_fail(r->l->err, SAC_UNSUPPORTED, "biases in the feed-forward layers are not supported");
    return SAC_OK;
}

static sac_status load_parts(reader *r) {
    sac_load_context *l = r->l;
    sac_checkpoint *weights = &l->files->weights;
    SAC_TRY(sac_checkpoint_add_file(weights, l->path, l->err));
    sac_checkpoint_file *f = &weights->files[0];
    if (sac_file_is_lfs_pointer(&f->map))
        return sac_fail(l->err, SAC_BAD_FILE,
                        "a Git LFS pointer, not the weights: run \"git lfs pull\" in its folder");
    SAC_TRY(sac_gguf_parse(&r->g, weights, 0, f->map.data, f->map.n_bytes, &f->header_bytes, l->err));
    sac_text_span type = {0};
    SAC_TRY(sac_gguf_get_string(&r->g, "general.type", &type, l->err));
    if (type.n_bytes == 7 && memcmp(type.text, "adapter", 7) == 0)
        return sac_fail(l->err, SAC_BAD_FILE, "an adapter; give its base as the model, and \"--adapter %s\"",
                        l->path);
    sac_sha256_update(l->hash, f->map.data, f->header_bytes);
    SAC_TRY(read_config(r));
    SAC_TRY(list_keys(r));
    SAC_TRY(read_sampling(r));
    SAC_TRY(sac_gguf_load_tokenizer(l, &r->g));
    SAC_TRY(sac_load_mmproj(l, &r->language));
    SAC_TRY(sac_load_open_adapters(l, r->arch));
    SAC_TRY(sac_load_open_kept_adapters(l, r->arch));
    const sac_checkpoint *vision = l->has_mmproj ? &l->files->tower : NULL;
    const json_t *quantization = NULL;
    SAC_TRY(sac_expert_tensors_list(weights, &l->config.decoder, l->err));
    SAC_TRY(sac_language_tensors_shape(weights, &l->config.decoder, &l->files->joined, l->err));
    SAC_TRY(sac_load_round_weights(l, &quantization, true));
    sac_bind_source source = {.weights = weights,
                              .quantization = quantization,
                              .tower = vision,
                              .merger = vision,
                              .adapters = l->files->adapters.n ? &l->files->adapters : NULL,
                              .pool = l->options->pool,
                              .gguf = true,
                              .progress = l->options->progress,
                              .progress_ctx = l->options->progress_ctx};
    SAC_TRY(find_biases(r, &source));
    SAC_TRY(sac_bind_model(l->m, &l->config, &source, l->err));
    SAC_TRY(sac_load_bind_kept_adapters(l, true));
    SAC_TRY(sac_language_tensors_part(weights, &l->files->joined, l->err));
    return sac_gguf_load_chat(l, &r->g);
}

sac_status sac_load_gguf(sac_load_context *l) {
    reader r = {.l = l};
    sac_status st = load_parts(&r);
    sac_gguf_free(&r.g);
    return st == SAC_OK || l->is_elsewhere ? st : sac_fail_prefix(l->err, st, "%s", l->path);
}
