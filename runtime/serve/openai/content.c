#define _GNU_SOURCE
#include "content.h"
#include "conversation.h"
#include "fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MESSAGES = 4096, MAX_PARTS = 65536, MAX_FRAMES = 8192 };

static bool no_memory(serve_problem *p) {
    return serve_refuse(p, 503, NULL, "out_of_memory", "no memory for the messages");
}

/* ---------------------------------------------------------------- media */

static const char *const media_types[] = {"image_url", "video_url", "video_frames"};

static bool is_media_type(const char *type) {
    for (size_t i = 0; i < sizeof media_types / sizeof *media_types; i++)
        if (!strcmp(type, media_types[i])) return true;
    return false;
}

/* "image_url": {"url": "..."} as OpenAI has it, or the bare string that some clients send. */
static bool url_of(const json_t *part, const char *type, const serve_media_ref *m, const char **url,
                   const json_t **object, serve_problem *p) {
    const json_t *v = json_object_get(part, type);
    *object = json_is_object(v) ? v : NULL;
    const json_t *u = *object ? json_object_get(v, "url") : v;
    *url = json_string_value(u);
    if (*url && **url) return true;
    return serve_refuse(p, 400, m->param, NULL, "%s.%s must be an object with a \"url\"", m->param, type);
}

static bool take_urls(serve_media_ref *m, size_t n, serve_problem *p) {
    m->urls = calloc(n, sizeof *m->urls);
    m->times = m->kind == SAC_PART_FRAMES ? calloc(n, sizeof *m->times) : NULL;
    m->n_urls = n;
    return (m->urls && (m->times || m->kind != SAC_PART_FRAMES)) || no_memory(p);
}

/* Times of frames: given, or one after another at the given rate. */
static bool frame_times(serve_media_ref *m, const json_t *times, double fps, serve_problem *p) {
    if (times && !json_is_null(times) && (!json_is_array(times) || json_array_size(times) != m->n_urls))
        return serve_refuse(p, 400, m->param, NULL, "%s: timestamps must be %zu numbers, one a frame",
                            m->param, m->n_urls);
    bool given = json_is_array(times);
    for (size_t i = 0; i < m->n_urls; i++) {
        const json_t *t = given ? json_array_get(times, i) : NULL;
        if (given && !json_is_number(t))
            return serve_refuse(p, 400, m->param, NULL, "%s: timestamp %zu is no number", m->param, i);
        m->times[i] = given ? json_number_value(t) : (double)i / (fps > 0 ? fps : 1);
        if (i > 0 && !(m->times[i] > m->times[i - 1]))
            return serve_refuse(p, 400, m->param, NULL, "%s: timestamps must grow", m->param);
    }
    return true;
}

static bool parse_frames(serve_media_ref *m, const json_t *part, double fps, serve_problem *p) {
    const json_t *v = json_object_get(part, "video_frames"), *urls = json_object_get(v, "urls");
    size_t n = json_array_size(urls);
    if (n == 0 || n > MAX_FRAMES)
        return serve_refuse(p, 400, m->param, NULL, "%s.video_frames.urls must be 1 to %d strings", m->param,
                            MAX_FRAMES);
    if (!take_urls(m, n, p)) return false;
    for (size_t i = 0; i < n; i++) {
        m->urls[i] = json_string_value(json_array_get(urls, i));
        if (!m->urls[i]) return serve_refuse(p, 400, m->param, NULL, "%s: URL %zu is no string", m->param, i);
    }
    return frame_times(m, json_object_get(v, "timestamps"), fps, p);
}

/* vLLM's list of frames in one URL, "data:video/jpeg;base64,F1,F2": the parts of m->urls then point behind
 * the commas; the media source ends each at the next comma. */
static bool parse_jpeg_list(serve_media_ref *m, const char *url, const json_t *object, double fps,
                            serve_problem *p) {
    size_t n = 0;
    m->kind = SAC_PART_FRAMES;
    m->in_one_url = true;
    for (const char *c = strchr(url, ','); c; c = strchr(c + 1, ',')) n++;
    if (n == 0 || n > MAX_FRAMES)
        return serve_refuse(p, 400, m->param, NULL, "%s: %zu frames, 1 to %d are taken", m->param, n,
                            MAX_FRAMES);
    if (!take_urls(m, n, p)) return false;
    size_t i = 0;
    for (const char *c = strchr(url, ','); c; c = strchr(c + 1, ',')) m->urls[i++] = c + 1;
    return frame_times(m, json_object_get(object, "timestamps"), fps, p);
}

static bool parse_media(serve_request *r, const json_t *part, const char *type, size_t message, size_t index,
                        sac_part *to, serve_problem *p) {
    serve_media_ref *m = &r->media[r->n_media++];
    *m = (serve_media_ref){.part = to, .json = (json_t *)(uintptr_t)part};
    snprintf(m->param, sizeof m->param, "messages[%zu].content[%zu]", message, index);
    to->video = r->video;
    if (!strcmp(type, "video_frames")) {
        m->kind = SAC_PART_FRAMES;
        to->kind = SAC_PART_FRAMES;
        return parse_frames(m, part, r->video.fps, p);
    }
    m->kind = !strcmp(type, "image_url") ? SAC_PART_IMAGE : SAC_PART_VIDEO;
    const char *url;
    const json_t *object;
    if (!url_of(part, type, m, &url, &object, p)) return false;
    if (m->kind == SAC_PART_VIDEO && !strncmp(url, "data:video/jpeg", 15)) {
        to->kind = SAC_PART_FRAMES;
        return parse_jpeg_list(m, url, object, r->video.fps, p);
    }
    to->kind = m->kind;
    if (!take_urls(m, 1, p)) return false;
    m->urls[0] = url;
    return true;
}

/* ---------------------------------------------------------------- messages */

static bool parse_part(serve_request *r, const serve_config *c, const json_t *part, size_t message,
                       size_t index, sac_part *to, serve_problem *p) {
    const char *type = json_string_value(json_object_get(part, "type"));
    char param[64];
    snprintf(param, sizeof param, "messages[%zu].content[%zu]", message, index);
    if (!type) return serve_refuse(p, 400, param, NULL, "%s must be an object with a \"type\"", param);
    if (!strcmp(type, "text")) {
        to->kind = SAC_PART_TEXT;
        to->text = json_string_value(json_object_get(part, "text"));
        return to->text || serve_refuse(p, 400, param, NULL, "%s has no \"text\"", param);
    }
    if (!is_media_type(type))
        return serve_refuse(p, 400, param, "unsupported_content",
                            "%s is of type '%.40s': text, image_url, video_url and video_frames are taken",
                            param, type);
    if (r->n_media >= (size_t)c->max_media)
        return serve_refuse(p, 413, param, "too_many_media", "more than %d pictures and videos",
                            c->max_media);
    return parse_media(r, part, type, message, index, to, p);
}

static bool parse_role(const json_t *message, size_t index, const char **role, serve_problem *p) {
    char param[64];
    snprintf(param, sizeof param, "messages[%zu].role", index);
    const char *name = json_string_value(json_object_get(message, "role"));
    if (!name) return serve_refuse(p, 400, param, NULL, "%s must be a string", param);
    if (!strcmp(name, "developer")) name = "system";
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    size_t n = strspn(name, letters);
    if (n == 0 || n > 40 || name[n])
        return serve_refuse(
            p, 400, param, NULL,
            "%s is '%.40s': system, user, assistant, and what the model's chat template takes, such as "
            "tool",
            param, name);
    *role = name;
    return true;
}

static bool parse_message(serve_request *r, const serve_config *c, const json_t *message, size_t index,
                          serve_problem *p) {
    sac_message *to = &r->messages[r->n_messages++];
    const json_t *content = json_object_get(message, "content");
    if (!parse_role(message, index, &to->role, p)) return false;
    char *fields = NULL;
    if (!serve_message_fields(r, message, index, &fields, p)) return false;
    to->fields = fields;
    to->parts = r->parts + r->n_parts;
    if ((json_is_null(content) || !content) && !strcmp(to->role, "assistant"))
        return true; /* tool_calls alone */
    if (json_is_string(content)) {
        r->parts[r->n_parts++] = (sac_part){.kind = SAC_PART_TEXT, .text = json_string_value(content)};
        to->n_parts = 1;
        return true;
    }
    if (!json_is_array(content) || json_array_size(content) == 0) {
        char param[64];
        snprintf(param, sizeof param, "messages[%zu].content", index);
        return serve_refuse(p, 400, param, NULL, "%s must be a string or a list of parts", param);
    }
    to->n_parts = json_array_size(content);
    for (size_t i = 0; i < to->n_parts; i++)
        if (!parse_part(r, c, json_array_get(content, i), index, i, &r->parts[r->n_parts++], p)) return false;
    return true;
}

/* Room for every part, as one piece: messages point into it. */
static bool take_parts(serve_request *r, const json_t *messages, serve_problem *p) {
    size_t n_messages = json_array_size(messages), n_parts = 0;
    for (size_t i = 0; i < n_messages; i++) {
        const json_t *content = json_object_get(json_array_get(messages, i), "content");
        n_parts += json_is_array(content) ? json_array_size(content) : 1;
    }
    if (n_parts > MAX_PARTS)
        return serve_refuse(p, 400, "messages", NULL, "'messages' have %zu parts: at most %d are taken",
                            n_parts, MAX_PARTS);
    if (n_messages == 0 || n_messages > MAX_MESSAGES)
        return serve_refuse(p, 400, "messages", NULL, "'messages' must be a list of 1 to %d messages",
                            MAX_MESSAGES);
    r->messages = calloc(n_messages, sizeof *r->messages);
    r->parts = calloc(n_parts + 1, sizeof *r->parts);
    r->media = calloc(n_parts + 1, sizeof *r->media);
    return (r->messages && r->parts && r->media) || no_memory(p);
}

bool serve_content_parse(serve_request *r, const serve_config *c, serve_problem *p) {
    const json_t *messages = json_object_get(r->json, "messages");
    if (!json_is_array(messages))
        return serve_refuse(p, 400, "messages", NULL, "'messages' must be a list of messages");
    if (!take_parts(r, messages, p)) return false;
    for (size_t i = 0; i < json_array_size(messages); i++)
        if (!parse_message(r, c, json_array_get(messages, i), i, p)) return false;
    const char *last = r->messages[r->n_messages - 1].role;
    bool is_answer = !strcmp(last, "assistant") || !strcmp(last, "system");
    if (is_answer && !r->chat.no_generation_prompt)
        return serve_refuse(
            p, 400, "messages", NULL,
            "the last message must be the user's, or a tool's; to go on with one of the model's give "
            "'continue_final_message': true");
    return true;
}

size_t serve_content_drop_urls(serve_request *r) {
    size_t n_bytes = 0;
    for (size_t i = 0; i < r->n_media; i++) {
        serve_media_ref *m = &r->media[i];
        size_t n = m->in_one_url ? 1 : m->n_urls; /* pieces of one: each would reach to its end */
        for (size_t k = 0; k < n; k++) n_bytes += strlen(m->urls[k]);
        json_object_clear(m->json);
        free(m->urls);
        m->urls = NULL;
    }
    return n_bytes;
}

void serve_content_free(serve_request *r) {
    for (size_t i = 0; i < r->n_media; i++) {
        free(r->media[i].urls);
        free(r->media[i].times);
    }
    free(r->media);
    free(r->parts);
    free(r->messages);
}
