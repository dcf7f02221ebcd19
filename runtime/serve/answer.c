#define _GNU_SOURCE
#include "answer.h"
#include "server.h"

#include <stdlib.h>
#include <string.h>

void serve_answer_begin(serve_answer *a, serve_job *j) {
    *a = (serve_answer){.job = j};
    if (j->request.logprobs) a->logprobs = json_array();
}

void serve_answer_free(serve_answer *a) {
    json_decref(a->logprobs);
    *a = (serve_answer){0};
}

/* ---------------------------------------------------------------- parts */

static json_t *media_json(const sac_media_report *m) {
    json_t *times = m->time_s ? json_array() : json_null();
    for (int i = 0; m->time_s && i < m->n_frames; i++) json_array_append_new(times, json_real(m->time_s[i]));
    return json_pack("{s:s, s:i, s:i, s:i, s:I, s:o, s:f, s:f, s:I, s:s?, s:b}", "kind",
                     m->kind == SAC_PART_IMAGE ? "image" : "video", "width", m->width, "height", m->height,
                     "frames", m->n_frames, "tokens", (json_int_t)m->n_tokens, "timestamps", times,
                     "source_fps", m->source_fps, "duration", m->duration_s, "source_frames",
                     (json_int_t)m->source_frames, "rule", m->rule, "cached", (int)m->from_cache);
}

static json_t *usage_json(const sac_result *r, double kept_ratio) {
    json_t *media = json_array();
    int64_t frames = 0;
    for (size_t i = 0; i < r->n_media; i++) {
        json_array_append_new(media, media_json(&r->media[i]));
        frames += r->media[i].n_frames;
    }
    json_int_t prompt = r->n_prompt_tokens, answer = r->n_tokens;
    return json_pack("{s:I, s:I, s:I, s:{s:I, s:I}, s:{s:I}, s:I, s:I, s:f, s:o}", "prompt_tokens", prompt,
                     "completion_tokens", answer, "total_tokens", prompt + answer, "prompt_tokens_details",
                     "cached_tokens", (json_int_t)r->n_reused_tokens, "image_tokens",
                     (json_int_t)r->n_visual_tokens, "completion_tokens_details", "reasoning_tokens",
                     (json_int_t)0, "visual_tokens", (json_int_t)r->n_visual_tokens, "frames",
                     (json_int_t)frames, "kept_ratio", kept_ratio, "media", media);
}

static json_t *envelope(const serve_job *j, const char *object, json_t *choices) {
    return json_pack("{s:s, s:s, s:I, s:s, s:o}", "id", j->id, "object", object, "created",
                     (json_int_t)j->created, "model", j->server->config->model_name, "choices", choices);
}

/* {"content": [...]} of a chat, or null. */
static json_t *take_logprobs(serve_answer *a) {
    if (!a->logprobs) return json_null();
    json_t *j = json_pack("{s:o, s:n}", "content", a->logprobs, "refusal");
    a->logprobs = json_array();
    return j;
}

/* ---------------------------------------------------------------- streams */

static void send_event(serve_job *j, json_t *event) {
    char *text = event ? json_dumps(event, JSON_COMPACT) : NULL;
    json_decref(event);
    serve_buffer b = {0};
    serve_buffer_text(&b, "data: ");
    serve_buffer_text(&b, text ? text : "{}");
    serve_buffer_text(&b, "\n\n");
    free(text);
    serve_job_output(j, b.data, b.n);
    serve_buffer_free(&b);
}

static const char *chunk_name(const serve_job *j) {
    return j->request.is_chat ? "chat.completion.chunk" : "text_completion";
}

static void send_chunk(serve_answer *a, json_t *choice) {
    serve_job *j = a->job;
    json_t *event = envelope(j, chunk_name(j), json_pack("[o]", choice));
    if (j->request.include_usage) json_object_set_new(event, "usage", json_null());
    send_event(j, event);
}

static json_t *choice_of(serve_answer *a, const char *text, size_t n, const char *finish_reason) {
    if (!a->job->request.is_chat)
        return json_pack("{s:i, s:s%, s:o, s:s?}", "index", 0, "text", text, n, "logprobs", take_logprobs(a),
                         "finish_reason", finish_reason);
    json_t *delta = n ? json_pack("{s:s%}", "content", text, n) : json_object();
    return json_pack("{s:i, s:o, s:o, s:s?}", "index", 0, "delta", delta, "logprobs", take_logprobs(a),
                     "finish_reason", finish_reason);
}

static void send_role(serve_answer *a) {
    a->has_role = true;
    if (a->job->request.is_chat)
        send_chunk(a, json_pack("{s:i, s:{s:s, s:s}, s:n, s:n}", "index", 0, "delta", "role", "assistant",
                                "content", "", "logprobs", "finish_reason"));
}

void serve_answer_text(serve_answer *a, const char *utf8, size_t n) {
    if (!a->job->request.stream || n == 0) return;
    if (!a->has_role) send_role(a);
    send_chunk(a, choice_of(a, utf8, n, NULL));
}

static void finish_stream(serve_answer *a, const sac_result *r, json_t *usage, json_t *places) {
    serve_job *j = a->job;
    if (!a->has_role) send_role(a);
    send_chunk(a, choice_of(a, "", 0, r->finish_reason));
    if (j->request.include_usage || places) {
        json_t *event = envelope(j, chunk_name(j), json_array());
        json_object_set(event, "usage", usage);
        if (places) json_object_set_new(event, "saccade", places);
        send_event(j, event);
    }
    serve_job_output(j, "data: [DONE]\n\n", 14);
}

/* ---------------------------------------------------------------- whole */

static json_t *whole_choice(serve_answer *a, const sac_result *r) {
    if (!a->job->request.is_chat) return choice_of(a, r->text, r->n_text_bytes, r->finish_reason);
    return json_pack("{s:i, s:{s:s, s:s%, s:n}, s:o, s:s}", "index", 0, "message", "role", "assistant",
                     "content", r->text, r->n_text_bytes, "refusal", "logprobs", take_logprobs(a),
                     "finish_reason", r->finish_reason);
}

static void finish_whole(serve_answer *a, const sac_result *r, json_t *usage, json_t *places) {
    serve_job *j = a->job;
    json_t *whole = envelope(j, j->request.is_chat ? "chat.completion" : "text_completion",
                             json_pack("[o]", whole_choice(a, r)));
    json_object_set(whole, "usage", usage);
    if (places) json_object_set_new(whole, "saccade", places);
    char *text = json_dumps(whole, JSON_COMPACT);
    json_decref(whole);
    if (text) serve_job_output(j, text, strlen(text));
    free(text);
}

void serve_answer_finish(serve_answer *a, const sac_result *r, double kept_ratio, json_t *places) {
    json_t *usage = usage_json(r, kept_ratio);
    if (a->job->request.stream)
        finish_stream(a, r, usage, places);
    else
        finish_whole(a, r, usage, places);
    json_decref(usage);
}
