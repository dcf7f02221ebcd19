/* caption_openai.c - a request as OpenAI's batch files hold it, with vLLM's additions for videos.
 *
 * Pictures and videos come as data: URIs or as file:// below the media root; nothing is fetched. */
#define _GNU_SOURCE
#include "caption_request.h"
#include "status.h"

#include "base64.h"
#include "url.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---------------------------------------------------------------- addresses */

static sac_status add_data(caption_request *q, const caption_how *how, media_kind kind, const char *url,
                           sac_error *err) {
    const char *text = intake_data_text(url);
    if (!text) return sac_fail(err, SAC_BAD_FILE, "a data: address without ';base64,'");
    size_t n_text = strlen(text), n = 0;
    if (!n_text) return sac_fail(err, SAC_BAD_FILE, "a data: address that holds no bytes");
    uint8_t *bytes = malloc(3 * (n_text / 4 + 1));
    if (!bytes) return sac_fail_no_memory(err);
    if (!sac_base64_decode(text, n_text, bytes, &n) || !n) {
        free(bytes);
        return sac_fail(err, SAC_BAD_FILE, "a data: address that is not base64");
    }
    q->n_bytes += n;
    return conversation_add_bytes(&q->c, kind, bytes, n, how->s, err);
}

/* The file behind all links must lie below the root. */
static sac_status add_local(caption_request *q, const caption_how *how, media_kind kind, const char *url,
                            sac_error *err) {
    char given[PATH_MAX], real[PATH_MAX];
    if (!intake_file_path(url, given, sizeof given))
        return sac_fail(err, SAC_BAD_FILE, "%.200s: expected file:///PATH", url);
    if (!realpath(given, real)) return sac_fail(err, SAC_NOT_FOUND, "%.200s: %s", given, strerror(errno));
    size_t n = how->media_root ? strlen(how->media_root) : 0;
    bool below = n && !strncmp(real, how->media_root, n) && (real[n] == '/' || (n == 1 && real[0] == '/'));
    if (!below) return sac_fail(err, SAC_BAD_ARGUMENT, "%.200s: lies outside of --media-root", given);
    return caption_request_add_file(q, how, kind, real, err);
}

static sac_status add_address(caption_request *q, const caption_how *how, media_kind kind, const json_t *part,
                              const char *key, sac_error *err) {
    const json_t *holder = json_object_get(part, key);
    const char *url = json_string_value(json_is_object(holder) ? json_object_get(holder, "url") : holder);
    if (!url) return sac_fail(err, SAC_BAD_FILE, "%s: expected {\"url\": ...}", key);
    if (!q->media || kind == MEDIA_VIDEO) q->media = kind == MEDIA_VIDEO ? "video" : "image";
    if (!strncasecmp(url, "data:", 5)) return add_data(q, how, kind, url, err);
    if (!strncasecmp(url, "file://", 7)) return add_local(q, how, kind, url, err);
    return sac_fail(err, SAC_UNSUPPORTED, "%.100s: nothing is fetched; give data: or file://", url);
}

/* ---------------------------------------------------------------- messages */

static sac_status add_part(caption_request *q, const caption_how *how, const json_t *part, sac_error *err) {
    const char *type = json_string_value(json_object_get(part, "type"));
    const char *text = json_string_value(json_object_get(part, "text"));
    if (type && !strcmp(type, "image_url")) return add_address(q, how, MEDIA_IMAGE, part, "image_url", err);
    if (type && !strcmp(type, "video_url")) return add_address(q, how, MEDIA_VIDEO, part, "video_url", err);
    if (type && !strcmp(type, "text") && text) return conversation_add_text(&q->c, text, strlen(text), err);
    return sac_fail(err, SAC_BAD_FILE,
                    "content: a part of type '%.40s'; there are text, image_url and video_url",
                    type ? type : "");
}

static sac_status add_message(caption_request *q, const caption_how *how, const json_t *message,
                              sac_error *err) {
    static const char *const roles[] = {"system", "user", "assistant"};
    const char *given = json_string_value(json_object_get(message, "role")), *role = NULL;
    const json_t *content = json_object_get(message, "content"), *part;
    size_t i;
    for (i = 0; given && i < SAC_COUNT(roles); i++)
        if (!strcmp(given, roles[i])) role = roles[i];
    if (given && !strcmp(given, "developer")) role = "system";
    if (!role) return sac_fail(err, SAC_BAD_FILE, "messages: unknown role '%.40s'", given ? given : "");
    SAC_TRY(conversation_begin(&q->c, role, err));
    if (json_is_string(content))
        return conversation_add_text(&q->c, json_string_value(content), json_string_length(content), err);
    if (!json_is_array(content))
        return sac_fail(err, SAC_BAD_FILE, "messages: content: expected a text or a list of parts");
    json_array_foreach(content, i, part) SAC_TRY(add_part(q, how, part, err));
    return SAC_OK;
}

/* ---------------------------------------------------------------- what is not supported */

/* Only chat completions; a line may leave both out. */
static sac_status check_route(const json_t *request, sac_error *err) {
    static const char *const wanted[][2] = {{"method", "POST"}, {"url", "/v1/chat/completions"}};
    for (size_t i = 0; i < SAC_COUNT(wanted); i++) {
        const json_t *v = json_object_get(request, wanted[i][0]);
        const char *text = json_string_value(v);
        if (v && (!text || strcmp(text, wanted[i][1]) != 0))
            return sac_fail(err, SAC_UNSUPPORTED, "%s: expected %s%s%.60s", wanted[i][0], wanted[i][1],
                            text ? ", found " : "", text ? text : "");
    }
    return SAC_OK;
}

/* Nothing is asked for by null, false, 0 and what is empty. */
static bool asks(const json_t *v) {
    if (json_is_number(v)) return json_number_value(v) != 0;
    return json_is_true(v) || json_string_length(v) || json_array_size(v) || json_object_size(v);
}

/* What would be ignored makes another answer than the one that was asked for. */
static sac_status check_body(const json_t *body, sac_error *err) {
    static const char *const unsupported[] = {"tools",
                                              "documents",
                                              "chat_template",
                                              "chat_template_kwargs",
                                              "continue_final_message",
                                              "functions",
                                              "logprobs",
                                              "top_logprobs",
                                              "logit_bias",
                                              "ignore_eos",
                                              "min_tokens",
                                              "audio",
                                              "mm_processor_kwargs",
                                              "structured_outputs",
                                              "guided_json",
                                              "guided_regex",
                                              "guided_choice",
                                              "guided_grammar",
                                              "saccade"};
    static const char *const counts[] = {"n", "best_of"};
    const json_t *format = json_object_get(body, "response_format");
    for (size_t i = 0; i < SAC_COUNT(counts); i++) {
        const json_t *n = json_object_get(body, counts[i]);
        if (n && !json_is_null(n) && json_integer_value(n) != 1)
            return sac_fail(err, SAC_UNSUPPORTED, "%s: only 1 answer is given", counts[i]);
    }
    if (asks(json_object_get(body, "stream")))
        return sac_fail(err, SAC_UNSUPPORTED, "stream: not in a batch");
    for (size_t i = 0; i < SAC_COUNT(unsupported); i++)
        if (asks(json_object_get(body, unsupported[i])))
            return sac_fail(err, SAC_UNSUPPORTED, "%s: not in a batch; leave it out", unsupported[i]);
    const char *type = json_string_value(json_object_get(format, "type"));
    if (format && !json_is_null(format) && (!type || strcmp(type, "text") != 0))
        return sac_fail(err, SAC_UNSUPPORTED,
                        "response_format: only text in a batch; 'saccade serve' has more");
    return SAC_OK;
}

/* ---------------------------------------------------------------- numbers */

static sac_status read_number(const json_t *o, const char *key, double min, double max, double *value,
                              sac_error *err) {
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) return SAC_OK;
    double d = json_number_value(v);
    if (!json_is_number(v) || !(d >= min && d <= max))
        return sac_fail(err, SAC_BAD_FILE, "%s: expected a number from %g to %g", key, min, max);
    *value = d;
    return SAC_OK;
}

static sac_status read_count(const json_t *o, const char *key, int *value, sac_error *err) {
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) return SAC_OK;
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > INT_MAX)
        return sac_fail(err, SAC_BAD_FILE, "%s: expected a whole number", key);
    *value = (int)json_integer_value(v);
    return SAC_OK;
}

static sac_status read_stop(caption_request *q, const json_t *stop, sac_error *err) {
    size_t n = json_is_array(stop) ? json_array_size(stop) : 1;
    if (!stop || json_is_null(stop)) return SAC_OK;
    if (n > 64) return sac_fail(err, SAC_BAD_FILE, "stop: more than 64 texts");
    if (!(q->stop = calloc(n + 1, sizeof *q->stop))) return sac_fail_no_memory(err);
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_is_array(stop) ? json_array_get(stop, i) : stop);
        if (!text || !*text) return sac_fail(err, SAC_BAD_FILE, "stop: expected a text or a list of texts");
        if (!(q->stop[i] = strdup(text))) return sac_fail_no_memory(err);
    }
    q->sampling.stop = (const char *const *)q->stop;
    q->sampling.n_stop = n;
    return SAC_OK;
}

static sac_status read_sampling(caption_request *q, const json_t *body, sac_error *err) {
    sac_sampling *p = &q->sampling;
    const json_t *seed = json_object_get(body, "seed");
    if (json_is_integer(seed)) p->seed = (uint64_t)json_integer_value(seed);
    SAC_TRY(read_count(body, "max_tokens", &p->max_tokens, err));
    SAC_TRY(read_count(body, "max_completion_tokens", &p->max_tokens, err));
    SAC_TRY(read_number(body, "temperature", 0, 100, &p->temperature, err));
    SAC_TRY(read_number(body, "top_p", 0, 1, &p->top_p, err));
    SAC_TRY(read_number(body, "min_p", 0, 1, &p->min_p, err));
    SAC_TRY(read_number(body, "repetition_penalty", .01, 100, &p->repetition_penalty, err));
    SAC_TRY(read_number(body, "presence_penalty", -2, 2, &p->presence_penalty, err));
    SAC_TRY(read_number(body, "frequency_penalty", -2, 2, &p->frequency_penalty, err));
    SAC_TRY(read_count(body, "top_k", &p->top_k, err));
    return read_stop(q, json_object_get(body, "stop"), err);
}

/* vLLM's {"media_io_kwargs": {"video": {"num_frames", "fps"}}}: for all videos of the request. */
static sac_status read_video_options(caption_request *q, const json_t *body, sac_error *err) {
    const json_t *video = json_object_get(json_object_get(body, "media_io_kwargs"), "video");
    int frames = 0;
    double fps = 0;
    SAC_TRY(read_count(video, "num_frames", &frames, err));
    SAC_TRY(read_number(video, "fps", 0, 1000, &fps, err));
    for (size_t i = 0; i < q->c.n_messages; i++)
        for (size_t k = 0; k < q->c.messages[i].n_parts; k++) {
            sac_part *p = (sac_part *)&q->c.messages[i].parts[k]; /* the conversation is our own */
            if (frames) p->video.num_frames = frames;
            if (fps > 0) p->video.fps = fps;
        }
    return SAC_OK;
}

sac_status caption_request_openai(caption_request *q, const caption_how *how, const json_t *request,
                                  sac_error *err) {
    const json_t *body = json_object_get(request, "body"), *messages = json_object_get(body, "messages"),
                 *message;
    size_t i;
    SAC_TRY(check_route(request, err));
    if (!json_is_array(messages) || !json_array_size(messages))
        return sac_fail(err, SAC_BAD_FILE, "body: expected \"messages\"");
    SAC_TRY(check_body(body, err));
    SAC_TRY(read_sampling(q, body, err));
    json_array_foreach(messages, i, message) SAC_TRY(add_message(q, how, message, err));
    return read_video_options(q, body, err);
}
