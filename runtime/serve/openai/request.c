#define _GNU_SOURCE
#include "request.h"
#include "content.h"
#include "conversation.h"
#include "fields.h"
#include "json_size.h"
#include "known_fields.h"
#include "listed_ids.h"
#include "methods.h"
#include "other_api.h"
#include "prompts.h"
#include "structure.h"
#include "token_limits.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static bool refuse_null(serve_problem *p) {
    return serve_refuse(p, 400, NULL, "invalid_json", "the body has U+0000 in a string, which is not taken");
}

bool serve_refuse_json(const json_error_t *e, serve_problem *p) {
    enum json_error_code code = json_error_code(e);
    if (code == json_error_out_of_memory)
        return serve_refuse(p, 503, NULL, "out_of_memory", "no memory for the request");
    if (code == json_error_null_character || code == json_error_null_byte_in_key) return refuse_null(p);
    return serve_refuse(p, 400, NULL, "invalid_json", "the body is not JSON: %s (line %d, column %d)",
                        e->text, e->line, e->column);
}

/* In any string of it; but for those of the key. As deep as the parser goes. */
static bool has_null(const json_t *v, const char *but) {
    const char *key;
    json_t *of;
    size_t i;
    if (json_is_string(v)) return memchr(json_string_value(v), 0, json_string_length(v)) != NULL;
    json_array_foreach(v, i, of) if (has_null(of, NULL)) return true;
    json_object_foreach((json_t *)v, key, of) if ((!but || strcmp(key, but) != 0) && has_null(of, NULL)) return true;
    return false;
}

/* The body without the ids of a long prompt, which are the request's then. NULL: there are none, or what is left is no JSON, and all of it
 * is to be parsed for what there is to say. */
static json_t *parse_without_ids(serve_request *r, const char *body, size_t n_bytes) {
    serve_listed_ids l = serve_find_listed_ids(body, n_bytes, SERVE_LISTED_LEAST);
    json_t *json = l.ids ? serve_parse_around(body, n_bytes, &l) : NULL;
    if (json)
        r->listed_ids = l.ids, r->n_listed_ids = l.n;
    else
        free(l.ids);
    return json;
}

/* A prompt of a text completion has its length: drawn tokens, as benchmarks send them, may be any bytes. */
static bool parse_json(serve_request *r, const char *body, size_t n_bytes, serve_problem *p) {
    const bool counts = !r->is_chat;
    json_error_t e;
    if (n_bytes == 0) return serve_refuse(p, 400, NULL, "invalid_json", "the body is empty");
    if (counts) r->json = parse_without_ids(r, body, n_bytes);
    if (!r->json) r->json = json_loadb(body, n_bytes, JSON_REJECT_DUPLICATES | (counts ? JSON_ALLOW_NUL : 0), &e);
    if (!r->json) return serve_refuse_json(&e, p);
    if (counts && has_null(r->json, "prompt")) return refuse_null(p);
    return json_is_object(r->json) ||
           serve_refuse(p, 400, NULL, "invalid_json", "the body must be a JSON object");
}

bool serve_request_size(size_t *n_tree, serve_api api, const char *body, size_t n_bytes, serve_problem *p) {
    bool twice = api == SERVE_API_RESPONSES || api == SERVE_API_MESSAGES || api == SERVE_API_SCORE || api == SERVE_API_RERANK;
    *n_tree = serve_json_tree_bytes(body, n_bytes) * (twice ? 2 : 1);
    return *n_tree <= SERVE_MAX_TREE_BYTES ||
           serve_refuse(
               p, 413, NULL, "request_too_large",
               "the body has too many values: in memory they would take %zu MiB beside their texts, and "
               "%zu are allowed",
               *n_tree >> 20, SERVE_MAX_TREE_BYTES >> 20);
}

static bool parse_model(serve_request *r, const serve_config *c, serve_problem *p) {
    const char *name = NULL;
    if (!serve_field_string(r->json, "model", &name, p)) return false;
    return !name || serve_model_find(&r->adapter, c, name, p);
}

static bool parse_stop(serve_request *r, serve_problem *p) {
    const json_t *stop = json_object_get(r->json, "stop");
    if (!stop || json_is_null(stop)) return true;
    size_t n = json_is_array(stop) ? json_array_size(stop) : 1;
    if (n > SERVE_MAX_STOP)
        return serve_refuse(p, 400, "stop", NULL, "'stop' has %zu texts: at most %d are taken", n,
                            SERVE_MAX_STOP);
    for (size_t i = 0; i < n; i++) {
        r->stop[i] = json_string_value(json_is_array(stop) ? json_array_get(stop, i) : stop);
        if (!r->stop[i] || !r->stop[i][0])
            return serve_refuse(p, 400, "stop", NULL,
                                "'stop' must be a text, or a list of texts, none empty");
    }
    r->sampling.stop = r->stop;
    r->sampling.n_stop = n;
    return true;
}

static bool parse_max_tokens(serve_request *r, serve_problem *p) {
    int64_t n = r->sampling.max_tokens;
    if (!r->is_chat) n = 16; /* OpenAI's default for text completions */
    int64_t least = r->is_chat ? 1 : 0; /* 0: the prompt alone, see serve_prompts_parse */
    if (!serve_field_int(r->json, "max_tokens", least, INT_MAX, &n, p)) return false;
    if (!serve_field_int(r->json, "max_completion_tokens", least, INT_MAX, &n, p)) return false;
    r->no_answer = !r->is_chat && n == 0;
    r->sampling.max_tokens = (int)n;
    return true;
}

static bool parse_sampling(serve_request *r, serve_problem *p) {
    sac_sampling *s = &r->sampling;
    const json_t *j = r->json;
    int64_t top_k = s->top_k, seed = 0, n = 1, min_tokens = 0;
    if (!parse_max_tokens(r, p)) return false;
    if (!serve_field_real(j, "temperature", 0, 100, &s->temperature, p)) return false;
    if (!serve_field_real(j, "top_p", 1e-9, 1, &s->top_p, p)) return false;
    if (!serve_field_real(j, "min_p", 0, 1, &s->min_p, p)) return false;
    if (!serve_field_int(j, "top_k", -1, INT_MAX, &top_k, p)) return false;
    s->top_k = top_k < 0 ? 0 : (int)top_k; /* vLLM's -1 = off */
    if (!serve_field_real(j, "repetition_penalty", 0.01, 100, &s->repetition_penalty, p)) return false;
    if (!serve_field_real(j, "presence_penalty", -2, 2, &s->presence_penalty, p)) return false;
    if (!serve_field_real(j, "frequency_penalty", -2, 2, &s->frequency_penalty, p)) return false;
    if (!serve_field_int(j, "seed", INT64_MIN, INT64_MAX, &seed, p)) return false;
    s->seed = (uint64_t)seed;
    if (!serve_field_int(j, "n", 1, SERVE_MAX_CHOICES, &n, p)) return false;
    if (!serve_field_int(j, "best_of", n, n, &n, p)) return false; /* all that are made are given */
    r->n_choices = (int)n;
    if (!serve_field_bool(j, "ignore_eos", &s->ignore_eos, p)) return false;
    if (!serve_field_int(j, "min_tokens", 0, INT_MAX, &min_tokens, p)) return false;
    r->min_tokens = (int)min_tokens;
    return parse_stop(r, p);
}

/* Settings of generation by the names that sac_controls_set takes, and llama.cpp's and vLLM's for the same. */
static bool parse_controls(serve_request *r, serve_problem *p) {
    static const char *const names[][2] = {
        {"min_length", "min_length"},
        {"no_repeat_ngram_size", "no_repeat_ngram_size"},
        {"encoder_no_repeat_ngram_size", "encoder_no_repeat_ngram_size"},
        {"encoder_repetition_penalty", "encoder_repetition_penalty"},
        {"typical_p", "typical_p"},
        {"epsilon_cutoff", "epsilon_cutoff"},
        {"eta_cutoff", "eta_cutoff"},
        {"top_h", "top_h"},
        {"max_time", "max_time"},
        {"exponential_decay_length_penalty", "exponential_decay_length_penalty"},
        {"suppress_tokens", "suppress_tokens"},
        {"begin_suppress_tokens", "begin_suppress_tokens"},
        {"forced_eos_token_id", "forced_eos_token_id"},
        {"stop_token_ids", "stop_token_ids"},
        {"bad_words_ids", "bad_words_ids"},
        {"sequence_bias", "sequence_bias"},
        {"dry_multiplier", "dry_multiplier"},
        {"dry_base", "dry_base"},
        {"dry_allowed_length", "dry_allowed_length"},
        {"dry_penalty_last_n", "dry_penalty_last_n"},
        {"dry_breaker_ids", "dry_breaker_ids"},
        {"xtc_probability", "xtc_probability"},
        {"xtc_threshold", "xtc_threshold"},
        {"mirostat", "mirostat"},
        {"mirostat_tau", "mirostat_tau"},
        {"mirostat_eta", "mirostat_eta"},
        {"min_new_tokens", "min_new_tokens"},
        {"remove_invalid_values", "remove_invalid_values"},
        {"stop_strings", "stop_strings"},
        {"guidance_scale", "guidance_scale"},
        {"negative_prompt_ids", "negative_prompt_ids"},
    };
    sac_error err;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *v = json_object_get(r->json, names[i][0]);
        if (!v || json_is_null(v)) continue;
        if (!r->controls && sac_controls_copy_of(&r->controls, r->sampling.controls, &err) != SAC_OK)
            return serve_refuse(p, 503, NULL, "out_of_memory", "no memory for the request");
        r->sampling.controls = r->controls;
        char *text = json_dumps(v, JSON_ENCODE_ANY);
        if (!text) return serve_refuse(p, 503, NULL, "out_of_memory", "no memory for the request");
        sac_status st = sac_controls_set(r->controls, names[i][1], text, &err);
        free(text);
        if (st != SAC_OK) return serve_refuse(p, 400, names[i][0], NULL, "%.160s", err.text);
    }
    return true;
}

static bool check_controls(const serve_request *r, int n_vocab, serve_problem *p) {
    sac_error err;
    if (!r->controls || sac_controls_check_ids(r->controls, n_vocab, &err) == SAC_OK) return true;
    return serve_refuse(p, 400, NULL, NULL, "%.200s", err.text);
}

/* SplitMix64's mixing: neighbours share nothing. */
uint64_t serve_choice_seed(uint64_t seed, int choice) {
    if (choice == 0) return seed;
    uint64_t z = seed + (uint64_t)choice * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static bool parse_logprobs(serve_request *r, serve_problem *p) {
    int64_t top = 0;
    if (r->is_chat) {
        if (!serve_field_bool(r->json, "logprobs", &r->logprobs, p)) return false;
        if (!serve_field_int(r->json, "top_logprobs", 0, SAC_MAX_TOP_LOGPROBS, &top, p)) return false;
        if (top > 0 && !r->logprobs)
            return serve_refuse(p, 400, "top_logprobs", NULL, "'top_logprobs' needs 'logprobs': true");
    } else {
        top = -1;
        if (!serve_field_int(r->json, "logprobs", 0, SAC_MAX_TOP_LOGPROBS, &top, p)) return false;
        r->logprobs = top >= 0;
    }
    r->sampling.logprobs = r->logprobs;
    r->sampling.top_logprobs = top > 0 ? (int)top : 0;
    return true;
}

static bool parse_stream(serve_request *r, serve_problem *p) {
    const json_t *options = NULL;
    if (!serve_field_bool(r->json, "stream", &r->stream, p)) return false;
    if (!serve_field_object(r->json, "stream_options", &options, p)) return false;
    bool padded = false;
    if (!options) return true;
    if (!serve_field_bool(options, "include_usage", &r->include_usage, p)) return false;
    if (!serve_field_bool(options, "continuous_usage_stats", &r->continuous_usage, p)) return false;
    if (!serve_field_bool(options, "include_obfuscation", &padded, p)) return false;
    return !padded || serve_refuse(p, 400, "stream_options", "unsupported",
                                   "'stream_options.include_obfuscation' is not taken with this value: events are as long as their texts");
}

/* transformers' do_sample_frames: a video's are chosen here in any case. */
static bool check_sampling_of_frames(const json_t *mm, serve_problem *p) {
    bool samples = true;
    if (mm && !serve_field_bool(mm, "do_sample_frames", &samples, p)) return false;
    return samples || serve_refuse(p, 400, "mm_processor_kwargs.do_sample_frames", "unsupported",
                                   "'mm_processor_kwargs.do_sample_frames' is not taken with this value: for frames that are chosen "
                                   "already give them as a list");
}

/* vLLM's {"media_io_kwargs": {"video": {"num_frames", "fps"}}, "mm_processor_kwargs": {"fps", "max_pixels"}}.
 * num_frames -1 is vLLM's "all". */
static bool parse_video(serve_request *r, serve_problem *p) {
    const json_t *io = NULL, *mm = NULL, *video = NULL, *image = NULL;
    int64_t num_frames = 0, max_frames = 0;
    if (!serve_field_object(r->json, "media_io_kwargs", &io, p)) return false;
    if (!serve_field_object(r->json, "mm_processor_kwargs", &mm, p)) return false;
    if (io && !serve_field_object(io, "video", &video, p)) return false;
    if (io && !serve_field_object(io, "image", &image, p)) return false;
    if (!check_sampling_of_frames(mm, p)) return false;
    const json_t *places[] = {mm, video};
    for (size_t i = 0; i < 2; i++) {
        if (!places[i]) continue;
        if (!serve_field_int(places[i], "num_frames", -1, 1000000, &num_frames, p)) return false;
        if (!serve_field_int(places[i], "max_frames", 1, 1000000, &max_frames, p)) return false;
        if (!serve_field_real(places[i], "fps", -1, 1000, &r->video.fps, p)) return false;
        if (!serve_field_int(places[i], "max_pixels", 1, (int64_t)1 << 40, &r->video.max_pixels, p))
            return false;
        if (!serve_field_bool(places[i], "key_frames", &r->video.key_frames, p)) return false;
    }
    if (image && !serve_field_int(image, "max_pixels", 1, (int64_t)1 << 40, &r->image_max_pixels, p))
        return false;
    if (num_frames == 0 && r->video.fps < 0) r->video.fps = 0;
    if (r->video.fps < 0) r->video.fps = 0;
    r->video.num_frames = num_frames > 0 ? (int)num_frames : 0;
    r->video.max_frames = (int)max_frames;
    return true;
}

static bool parse_extras(serve_request *r, const serve_config *c, serve_api api, serve_problem *p) {
    const json_t *own = NULL;
    r->timeout_s = c->timeout_s;
    r->methods = calloc(1, sizeof *r->methods);
    if (!r->methods) return serve_refuse(p, 503, NULL, "out_of_memory", "no memory for the request");
    if (!serve_field_int(r->json, "priority", INT64_MIN, INT64_MAX, &r->priority, p)) return false;
    if (!serve_field_object(r->json, "saccade", &own, p)) return false;
    if (!own) return true;
    if (!serve_methods_parse(r->methods, c, own, p)) return false;
    if (!serve_field_bool(own, "places", &r->want_places, p)) return false;
    if (!serve_field_bool(own, "place_layers", &r->want_place_layers, p)) return false;
    if (!serve_field_bool(own, "progress", &r->want_progress, p)) return false;
    if (r->want_place_layers && !r->want_places)
        return serve_refuse(p, 400, "place_layers", NULL, "'place_layers' goes with 'places': give both");
    if (r->want_places && r->embed)
        return serve_refuse(p, 400, "places", "unsupported", "'places' are told of answers, and here none is made: leave it out");
    if (r->want_progress && !(r->stream && api == SERVE_API_CHAT))
        return serve_refuse(
            p, 400, "progress", "unsupported",
            "'progress' is told in streams of chat completions only: give 'stream' there, or leave it out");
    return serve_field_real(own, "timeout", 0.001, c->timeout_s, &r->timeout_s, p);
}

static bool read_embeddings(serve_request *r, serve_problem *p) {
    if (!serve_read_embeddings(&r->json, &r->said, p)) return false;
    r->embed = true;
    r->is_chat = !json_object_get(r->json, "prompt");
    if (!r->is_chat) json_object_del(r->json, "messages");
    return true;
}

/* Texts alone are a text completion's prompts. */
static bool read_comparison(serve_request *r, serve_api api, serve_problem *p) {
    if (!(api == SERVE_API_SCORE ? serve_read_score : serve_read_rerank)(&r->json, &r->said, p)) return false;
    r->embed = true;
    r->is_chat = r->each_alone = !json_object_get(r->json, "prompt");
    if (!r->is_chat) json_object_del(r->json, "messages");
    if (r->is_chat) r->n_prompts = json_array_size(json_object_get(r->json, "messages"));
    return true;
}

bool serve_request_parse(serve_request *r, const serve_config *c, int n_vocab, serve_api api, const char *body,
                         size_t n_bytes, serve_problem *p) {
    bool is_chat = api != SERVE_API_COMPLETIONS;
    *r = (serve_request){
        .is_chat = is_chat, .n_prompts = 1, .include_reasoning = true, .sampling = c->sampling};
    if (!parse_json(r, body, n_bytes, p)) return false;
    if (api == SERVE_API_RESPONSES && !serve_read_responses(&r->json, &r->said, p)) return false;
    if (api == SERVE_API_MESSAGES && !serve_read_messages(&r->json, &r->said, p)) return false;
    if (api == SERVE_API_EMBEDDINGS && !read_embeddings(r, p)) return false;
    if ((api == SERVE_API_SCORE || api == SERVE_API_RERANK) && !read_comparison(r, api, p)) return false;
    is_chat = r->is_chat;
    if (!serve_known_fields_check(r->json, is_chat, c->lenient_fields, &r->warnings, p)) return false;
    if (!parse_model(r, c, p)) return false;
    if (!parse_sampling(r, p)) return false;
    if (!serve_limits_parse(r, n_vocab, p)) return false;
    if (!parse_controls(r, p) || !check_controls(r, n_vocab, p)) return false;
    if (!parse_logprobs(r, p)) return false;
    if (!parse_stream(r, p)) return false;
    if (!parse_video(r, p)) return false;
    if (!parse_extras(r, c, api, p)) return false;
    if (!serve_field_bool(r->json, "include_reasoning", &r->include_reasoning, p)) return false;
    if (is_chat ? !serve_conversation_parse(r, c, p) || !serve_content_parse(r, c, p)
                : !serve_prompts_parse(r, n_vocab, p))
        return false;
    return serve_structure_parse(r, c, p);
}

void serve_request_free(serve_request *r) {
    serve_conversation_free(r);
    serve_content_free(r);
    serve_limits_free(r);
    sac_controls_free(r->controls);
    free(r->methods);
    serve_structure_free(r);
    serve_prompts_free(r);
    free(r->listed_ids);
    json_decref(r->warnings);
    json_decref(r->said);
    json_decref(r->json);
    *r = (serve_request){0};
}
