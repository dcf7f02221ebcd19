/* config_generation.c - stop ids and generation_config.json. */
#include "config.h"

#include "config_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sac_status add_stop_id(int32_t *ids, int *n, const json_t *v, int vocab, sac_error *err) {
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= vocab)
        return sac_fail(err, SAC_BAD_FILE, "\"eos_token_id\" must hold ids from 0 to %d", vocab - 1);
    int32_t id = (int32_t)json_integer_value(v);
    for (int i = 0; i < *n; i++)
        if (ids[i] == id) return SAC_OK;
    if (*n == SAC_MAX_STOP_IDS)
        return sac_fail(err, SAC_BAD_FILE, "\"eos_token_id\" holds more than %d ids", SAC_MAX_STOP_IDS);
    ids[(*n)++] = id;
    return SAC_OK;
}

sac_status sac_config_add_stop_ids(int32_t ids[SAC_MAX_STOP_IDS], int *n, const json_t *object, int vocab,
                                   sac_error *err) {
    const json_t *v = json_object_get(object, "eos_token_id");
    if (!v || json_is_null(v)) return SAC_OK;
    if (!json_is_array(v)) return add_stop_id(ids, n, v, vocab, err);
    for (size_t i = 0; i < json_array_size(v); i++)
        SAC_TRY(add_stop_id(ids, n, json_array_get(v, i), vocab, err));
    return SAC_OK;
}

/* Keys that need another way of searching, and the value with which they ask for nothing. */
typedef struct refusal {
    const char *key;
    double neutral;
} refusal;

static const refusal refused[] = {
    {"num_beams", 1},         {"num_beam_groups", 1}, {"num_return_sequences", 1}, {"penalty_alpha", 0},
    {"dola_layers", 0},       {"constraints", 0},     {"force_words_ids", 0},      {"watermarking_config", 0},
    {"diversity_penalty", 0}, {"token_healing", 0},
};

/* Of drawing a token; without "do_sample" nothing is drawn. */
static const char *const of_sampling[] = {"temperature", "top_p",          "top_k",      "min_p",
                                          "typical_p",   "epsilon_cutoff", "eta_cutoff", "top_h"};

static const char *const honoured[] = {"do_sample", "repetition_penalty", "max_new_tokens", "eos_token_id"};

/* Without effect on an answer here. */
static const char *const quiet[] = {
    "bos_token_id",
    "pad_token_id",
    "decoder_start_token_id",
    "use_cache",
    "cache_implementation",
    "cache_config",
    "max_cache_len",
    "length_penalty",
    "early_stopping",
    "renormalize_logits",
    "low_memory",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "output_logits",
    "return_dict_in_generate",
    "is_assistant",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "assistant_confidence_threshold",
    "prompt_lookup_num_tokens",
    "max_matching_ngram_size",
    "assistant_early_exit",
    "assistant_lookbehind",
    "target_lookbehind",
    "assistant_ensemble_weight",
    "speculation_type",
    "use_mtp",
    "compile_config",
    "disable_compile",
    "continuous_batching_config",
    "prefill_chunk_size",
    "transformers_version",
    "_from_model_config",
    "_commit_hash",
    "chat_format",
    "trust_remote_code",
};

static bool is_neutral(const json_t *v, double neutral) {
    if (json_is_null(v) || json_is_false(v)) return true;
    if (json_is_array(v)) return json_array_size(v) == 0;
    return json_is_number(v) && json_number_value(v) == neutral;
}

static sac_status refuse_others(const json_t *object, sac_error *err) {
    for (size_t i = 0; i < SAC_COUNT(refused); i++) {
        const json_t *v = json_object_get(object, refused[i].key);
        if (!v || is_neutral(v, refused[i].neutral)) continue;
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"%s\" is set, which is not done here: remove it from the file to go without",
                        refused[i].key);
    }
    return SAC_OK;
}

static bool is_among(const char *const *list, size_t n, const char *key) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i], key)) return true;
    return false;
}

static int kind_of(const char *key) {
    if (is_among(of_sampling, SAC_COUNT(of_sampling), key)) return SAC_SETTING_OF_SAMPLING;
    if (sac_controls_knows(key) || is_among(honoured, SAC_COUNT(honoured), key)) return SAC_SETTING_HONOURED;
    for (size_t i = 0; i < SAC_COUNT(refused); i++)
        if (!strcmp(refused[i].key, key)) return SAC_SETTING_QUIET; /* it asks for nothing, or is refused */
    return is_among(quiet, SAC_COUNT(quiet), key) ? SAC_SETTING_QUIET : SAC_SETTING_UNKNOWN;
}

void sac_generation_config_clear(sac_generation_config *g) {
    sac_controls_clear(&g->controls);
    free(g->keys);
    g->keys = NULL;
    g->n_keys = 0;
}

/* For who asks what the file says; a key that comes again (of two objects) is the later one. */
static sac_status keep_key(sac_generation_config *g, const char *name, const json_t *v, sac_error *err) {
    int i = 0;
    while (i < g->n_keys && strcmp(g->keys[i].name, name)) i++;
    if (i == g->n_keys) {
        if (g->n_keys == SAC_MAX_GENERATION_KEYS) return SAC_OK;
        if (!g->keys) g->keys = calloc(SAC_MAX_GENERATION_KEYS, sizeof *g->keys);
        if (!g->keys) return sac_fail(err, SAC_NO_MEMORY, "no memory for settings of generation");
        g->n_keys++;
    }
    sac_generation_key *k = &g->keys[i];
    snprintf(k->name, sizeof k->name, "%s", name);
    size_t n = json_dumpb(v, k->value, sizeof k->value - 4, JSON_ENCODE_ANY | JSON_COMPACT);
    if (n > sizeof k->value - 4) {
        n = sizeof k->value - 4;
        memcpy(k->value + n, "...", 3);
        n += 3;
    }
    k->value[n] = 0;
    k->kind = kind_of(name);
    return SAC_OK;
}

bool sac_config_is_generation_key(const char *key) {
    return kind_of(key) != SAC_SETTING_UNKNOWN;
}

/* What transformers writes for "off" though its own check of the value would refuse it; and a length that no
 * sequence has, such as its int(1e30). */
static bool is_off(const char *key, const json_t *v) {
    bool cuts = !strcmp(key, "typical_p") || !strcmp(key, "encoder_repetition_penalty") ||
                !strcmp(key, "guidance_scale");
    if (!strcmp(key, "max_length") && json_number_value(v) > INT32_MAX) return true;
    return json_is_null(v) || (cuts && json_is_number(v) && json_number_value(v) == 1);
}

static sac_status read_controls(sac_generation_config *g, const json_t *object, bool names_unknown,
                                sac_error *err) {
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)object, key, v) {
        int kind = kind_of(key);
        if (names_unknown || kind <= SAC_SETTING_OF_SAMPLING) SAC_TRY(keep_key(g, key, v, err));
        if (sac_controls_knows(key)) {
            if (is_off(key, v)) continue;
            if (sac_controls_set_value(&g->controls, key, v, err) != SAC_OK)
                return err ? (err->status = SAC_BAD_FILE) : SAC_BAD_FILE;
        } else if (names_unknown && kind == SAC_SETTING_UNKNOWN && !json_is_null(v) && !g->unknown[0])
            snprintf(g->unknown, sizeof g->unknown, "%s", key);
    }
    return SAC_OK;
}

sac_status sac_config_read_generation(sac_generation_config *g, const json_t *object, bool is_model_config,
                                      sac_error *err) {
    SAC_TRY(read_controls(g, object, !is_model_config, err));
    SAC_TRY(refuse_others(object, err));
    SAC_TRY(sac_config_get_int(object, "max_new_tokens", 1, INT32_MAX, &g->max_new_tokens, err));
    SAC_TRY(sac_json_get_bool(object, "do_sample", &g->do_sample, err));
    SAC_TRY(sac_json_get_float(object, "temperature", &g->temperature, err));
    SAC_TRY(sac_json_get_float(object, "top_p", &g->top_p, err));
    SAC_TRY(sac_json_get_float(object, "min_p", &g->min_p, err));
    SAC_TRY(sac_config_get_int(object, "top_k", 0, INT32_MAX, &g->top_k, err));
    SAC_TRY(sac_config_get_positive(object, "repetition_penalty", &g->repetition_penalty, err));
    if (!(g->temperature >= 0) || !(g->temperature < 1e6))
        return sac_fail(err, SAC_BAD_FILE, "\"temperature\" is %g, must be at least 0", g->temperature);
    if (!(g->top_p > 0) || !(g->top_p <= 1))
        return sac_fail(err, SAC_BAD_FILE, "\"top_p\" is %g, must be above 0 and at most 1", g->top_p);
    if (!(g->min_p >= 0) || !(g->min_p <= 1))
        return sac_fail(err, SAC_BAD_FILE, "\"min_p\" is %g, must be from 0 to 1", g->min_p);
    return SAC_OK;
}
