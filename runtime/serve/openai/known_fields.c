#define _GNU_SOURCE
#include "known_fields.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- the lists; each ends with NULL */

static const char *const honoured[] = {
    "model", "max_tokens", "max_completion_tokens", "temperature", "top_p", "min_p", "top_k",
    "repetition_penalty", "presence_penalty", "frequency_penalty", "seed", "n", "best_of", "ignore_eos",
    "min_tokens", "logit_bias", "allowed_token_ids", "stop", "logprobs", "stream", "stream_options", "response_format",
    "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "grammar",
    "json_schema", "media_io_kwargs", "mm_processor_kwargs", "priority", "saccade",
    /* request.c's further settings */
    "min_length", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "encoder_repetition_penalty",
    "typical_p", "epsilon_cutoff", "eta_cutoff", "top_h", "max_time", "exponential_decay_length_penalty",
    "suppress_tokens", "begin_suppress_tokens", "forced_eos_token_id", "stop_token_ids", "bad_words_ids",
    "sequence_bias", "dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n",
    "dry_breaker_ids", "xtc_probability", "xtc_threshold", "mirostat", "mirostat_tau", "mirostat_eta",
    "min_new_tokens", "remove_invalid_values", "stop_strings", "guidance_scale", "negative_prompt_ids", NULL};

static const char *const honoured_in_chat[] = {"messages",
                                               "top_logprobs",
                                               "tools",
                                               "tool_choice",
                                               "parallel_tool_calls",
                                               "include_reasoning",
                                               "documents",
                                               "chat_template_kwargs",
                                               "add_generation_prompt",
                                               "continue_final_message",
                                               NULL};

static const char *const honoured_in_completions[] = {"prompt", "echo", NULL};

/* They say who asks, where to keep what, or how fast: no answer depends on them. */
static const char *const without_effect[] = {"user",
                                             "metadata",
                                             "store",
                                             "service_tier",
                                             "safety_identifier",
                                             "prompt_cache_key",
                                             "prompt_cache_retention",
                                             "request_id",
                                             "session_id",
                                             "cache_prompt",
                                             "timings_per_token",
                                             NULL};

/* Known, and not done here: only the values that ask for nothing are taken, as compact JSON, divided by '|'. */
static const struct {
    const char *name, *off, *instead;
} not_done[] = {
    {"guided_decoding_backend", "", "there is one machine for all of them"},
    {"guided_whitespace_pattern", "", "JSON is written as its printers do"},
    {"functions", "", "give 'tools'"},
    {"function_call", "", "give 'tools'"},
    {"chat_template", "", "the server is started with --chat FILE"},
    {"echo", "false", NULL},
    {"suffix", "\"\"", NULL},
    {"bad_words", "[]", "give 'bad_words_ids'"},
    {"prompt_logprobs", "", NULL},
    {"prompt_embeds", "", NULL},
    {"truncate_prompt_tokens", "", NULL},
    {"use_beam_search", "false", NULL},
    {"length_penalty", "1|1.0", NULL},
    {"early_stopping", "false", NULL},
    {"include_stop_str_in_output", "false", NULL},
    {"skip_special_tokens", "true", NULL},
    {"spaces_between_special_tokens", "true", NULL},
    {"detokenize", "true", NULL},
    {"add_special_tokens", "true|false", NULL},
    {"modalities", "[\"text\"]", NULL},
    {"audio", "", NULL},
    {"prediction", "", NULL},
    {"web_search_options", "", NULL},
    {"moderation", "", NULL},
    {"reasoning_effort", "", "give 'chat_template_kwargs', as the model's template names it"},
    {"verbosity", "\"medium\"", NULL},
    {"include_reasoning", "true", NULL}, /* of a completion */
    {"parallel_tool_calls", "true", NULL},
    {"thinking_token_budget", "", NULL},
    {"logprob_token_ids", "", NULL},
    {"return_token_ids", "false", NULL},
    {"return_tokens_as_token_ids", "false", NULL},
    {"return_prompt_text", "false", NULL},
    {"stream_interval", "1", NULL},
    {"cache_salt", "", NULL},
    {"lora_request", "", NULL},
    {"kv_transfer_params", "", NULL},
    {"vllm_xargs", "", NULL},
    {"n_predict", "", "give 'max_tokens'"},
    {"tfs_z", "1|1.0", NULL},
    {"id_slot", "-1", NULL},
    {"samplers", "", NULL},
};

/* ---------------------------------------------------------------- looking at one */

static bool is_in(const char *const *list, const char *name) {
    while (*list && strcmp(*list, name)) list++;
    return *list != NULL;
}

/* Whether the value is one of those in `off`. */
static bool asks_for_nothing(const json_t *value, const char *off) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    size_t n = text ? strlen(text) : 0;
    bool found = false;
    for (const char *at = off; text && *at && !found;) {
        size_t length = strcspn(at, "|");
        found = length == n && !strncmp(at, text, n);
        at += length + (at[length] == '|');
    }
    free(text);
    return found;
}

/* *known: whether it is one of those. */
static bool check_not_done(const char *name, const json_t *value, bool *known, serve_problem *p) {
    for (size_t i = 0; i < sizeof not_done / sizeof *not_done; i++) {
        if (strcmp(not_done[i].name, name) != 0) continue;
        *known = true;
        if (asks_for_nothing(value, not_done[i].off)) return true;
        const char *instead = not_done[i].instead;
        return serve_refuse(p, 400, name, "unsupported", "'%s' is not taken%s%s", name,
                            instead ? ": " : " with this value", instead ? instead : "");
    }
    return true;
}

static bool warn(json_t **warnings, const char *name, serve_problem *p) {
    char text[200];
    snprintf(text, sizeof text, "'%.100s' is not known here and has no effect", name);
    if (!*warnings) *warnings = json_array();
    json_t *line = json_string(text);
    if (!line) line = json_string("a field is not known here and has no effect"); /* cut within a character */
    return json_array_append_new(*warnings, line) == 0 ||
           serve_refuse(p, 503, NULL, "out_of_memory", "no memory for the request");
}

/* ---------------------------------------------------------------- within fields */

#define VIDEO_KEYS "num_frames", "max_frames", "fps", "max_pixels", "key_frames"

/* What objects within the body may have; of others the reader of the field says so itself. */
static const struct {
    const char *name, *within; /* NULL: the field itself */
    const char *keys[12];
} nested[] = {
    {"stream_options", NULL, {"include_usage", "continuous_usage_stats", "include_obfuscation"}},
    {"media_io_kwargs", NULL, {"image", "video"}},
    {"media_io_kwargs", "image", {"max_pixels"}},
    {"media_io_kwargs", "video", {VIDEO_KEYS}},
    {"mm_processor_kwargs", NULL, {VIDEO_KEYS, "do_sample_frames"}},
    {"response_format", NULL, {"type", "json_schema", "schema"}},
    {"response_format", "json_schema", {"name", "description", "schema", "strict"}},
    {"saccade",
     NULL,
     {"prefill", "decode", "kv", "rope", "reduce", "places", "place_layers", "progress", "parse_special", "timeout"}},
};

/* Of a part of a message beside its type's own, which has the type's name; "uuid" is vLLM's name for what it caches. */
static const char *const part_keys[] = {"type", "cache_control", "uuid", NULL};

/* What is within the type's own; of a text nothing is. */
static const struct {
    const char *type, *keys[4];
} part_types[] = {
    {"text", {NULL}},
    {"image_url", {"url", "detail"}},
    {"video_url", {"url", "timestamps", "detail"}},
    {"video_frames", {"urls", "timestamps", "detail"}},
};

typedef struct checker {
    bool lenient;
    json_t **warnings;
    serve_problem *p;
} checker;

static bool pass_over(const checker *c, const char *path) {
    if (c->lenient) return warn(c->warnings, path, c->p);
    return serve_refuse(c->p, 400, path, "unknown_field",
                        "'%.100s' is not known here; a server with --lenient-fields names it in the answer's 'warnings' instead", path);
}

static bool check_keys(const checker *c, const char *of, const json_t *object, const char *const *keys) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value) {
        char path[120];
        if (is_in(keys, name) || json_is_null(value)) continue;
        snprintf(path, sizeof path, "%s.%.60s", of, name);
        if (!pass_over(c, path)) return false;
    }
    return true;
}

static size_t find_type(const char *type) {
    size_t i = 0;
    while (i < sizeof part_types / sizeof *part_types && strcmp(part_types[i].type, type) != 0) i++;
    return i;
}

/* Another type's key with an empty text asks for nothing, as null does. */
static bool is_empty_of_other(const char *name, const json_t *value) {
    return json_is_string(value) && json_string_length(value) == 0 && find_type(name) < sizeof part_types / sizeof *part_types;
}

static bool check_part(const checker *c, const json_t *part, size_t message, size_t index) {
    const char *type = json_string_value(json_object_get(part, "type")), *name;
    const size_t i = type ? find_type(type) : sizeof part_types / sizeof *part_types;
    json_t *value;
    char of[64], path[128];
    if (i == sizeof part_types / sizeof *part_types) return true; /* which is refused by its type */
    snprintf(of, sizeof of, "messages[%zu].content[%zu]", message, index);
    json_object_foreach((json_t *)(uintptr_t)part, name, value) {
        if (!strcmp(name, type) || is_in(part_keys, name) || json_is_null(value) || is_empty_of_other(name, value)) continue;
        snprintf(path, sizeof path, "%s.%.60s", of, name);
        if (!pass_over(c, path)) return false;
    }
    return check_keys(c, of, json_object_get(part, type), part_types[i].keys);
}

static bool check_nested(const checker *c, const json_t *body) {
    for (size_t i = 0; i < sizeof nested / sizeof *nested; i++) {
        const char *within = nested[i].within;
        const json_t *object = json_object_get(body, nested[i].name);
        char of[64];
        if (within) object = json_object_get(object, within);
        snprintf(of, sizeof of, "%s%s%s", nested[i].name, within ? "." : "", within ? within : "");
        if (!check_keys(c, of, object, nested[i].keys)) return false;
    }
    const json_t *messages = json_object_get(body, "messages");
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *content = json_object_get(json_array_get(messages, i), "content");
        for (size_t k = 0; k < json_array_size(content); k++)
            if (!check_part(c, json_array_get(content, k), i, k)) return false;
    }
    return true;
}

bool serve_known_fields_check(const json_t *body, bool is_chat, bool lenient, json_t **warnings,
                              serve_problem *p) {
    const char *name;
    json_t *value;
    const checker c = {lenient, warnings, p};
    if (!check_nested(&c, body)) return false;
    json_object_foreach((json_t *)(uintptr_t)body, name, value) {
        bool known = false;
        const char *const *own = is_chat ? honoured_in_chat : honoured_in_completions;
        if (is_in(honoured, name) || is_in(own, name) || is_in(without_effect, name)) continue;
        if (json_is_null(value)) continue;
        if (!check_not_done(name, value, &known, p)) return false;
        if (known) continue;
        if (!pass_over(&c, name)) return false;
    }
    return true;
}

bool serve_known_fields_of(const json_t *body, const char *const *known, bool lenient, json_t **warnings, serve_problem *p) {
    const checker c = {lenient, warnings, p};
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)body, name, value)
        if (!is_in(known, name) && !json_is_null(value) && !pass_over(&c, name)) return false;
    return true;
}
