#define _GNU_SOURCE
#include "answer.h"
#include "dialect.h"
#include "prompts.h"
#include "request.h"
#include "state.h"
#include "tokens.h"
#include "tools.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

static void on_part(void *ctx, splitter_kind kind, const char *text, size_t n);

/* Reasoning is told apart wherever the model writes it, calls where some may be made. */
static void open_splitter(serve_answer *a) {
    const serve_request *r = a->job->request;
    const serve_dialect *d = a->job->server->config->dialect;
    if (!r->is_chat || !d) return;
    splitter_options o = {.reasoning = d->reasoning,
                          .begins_inside = r->begins_inside,
                          .calls = r->tool_choice == SERVE_TOOLS_NONE ? NULL : d->calls,
                          .knows = serve_tools_know,
                          .tools = r,
                          .event = on_part,
                          .ctx = a};
    if (!o.reasoning && !o.calls) return;
    a->message.id_length = o.calls ? o.calls->id_length : 0;
    a->split = splitter_open(&o);
    a->failed = !a->split;
}

void serve_answer_begin(serve_answer *a, serve_job *j) {
    *a = (serve_answer){.job = j};
    if (!j->request->stream) a->choices = json_array();
    if (j->request->logprobs) a->logprobs = json_array();
    open_splitter(a);
}

void serve_answer_free(serve_answer *a) {
    splitter_close(a->split);
    serve_message_clear(&a->message);
    json_decref(a->logprobs);
    json_decref(a->choices);
    json_decref(a->usage);
    json_decref(a->places);
    *a = (serve_answer){0};
}

/* ---------------------------------------------------------------- parts */

/* A video reaches the engine as the frames that were chosen of it; what it was before is in the
 * reference. */
static sac_media_report describe(const sac_media_report *m, const serve_media_ref *ref) {
    sac_media_report r = *m;
    if (ref->kind != SAC_PART_VIDEO) return r;
    r.source_fps = ref->video.fps;
    r.duration_s = ref->video.duration_s;
    r.source_frames = ref->video.n_frames;
    r.rule = ref->video.rule;
    return r;
}

static json_t *media_json(const sac_media_report *m) {
    json_t *times = m->time_s ? json_array() : json_null();
    for (int i = 0; m->time_s && i < m->n_frames; i++) json_array_append_new(times, json_real(m->time_s[i]));
    return json_pack("{s:s, s:i, s:i, s:i, s:I, s:o, s:f, s:f, s:I, s:s?, s:b}", "kind",
                     m->kind == SAC_PART_IMAGE ? "image" : "video", "width", m->width, "height", m->height,
                     "frames", m->n_frames, "tokens", (json_int_t)m->n_tokens, "timestamps", times,
                     "source_fps", m->source_fps, "duration", m->duration_s, "source_frames",
                     (json_int_t)m->source_frames, "rule", m->rule, "cached", (int)m->from_cache);
}

static json_t *usage_json(const serve_request *request, const sac_result *r, double kept_ratio) {
    json_t *media = json_array();
    int64_t frames = 0;
    for (size_t i = 0; i < r->n_media; i++) {
        sac_media_report m = describe(&r->media[i], &request->media[i]);
        json_array_append_new(media, media_json(&m));
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
                     (json_int_t)j->created, "model", j->model, "choices", choices);
}

/* ---------------------------------------------------------------- log probabilities */

/* A token's bytes as JSON can say them: what is no UTF-8 becomes U+FFFD. A control token adds nothing to the text, so it goes by
 * its name. */
static json_t *token_text(const serve_tokens *t, int32_t id) {
    char text[512], name[256];
    size_t n = 0, n_name = 0;
    const char *p = id >= 0 && id < t->n ? t->bytes[id] : "",
               *end = p + (id >= 0 && id < t->n ? t->length[id] : 0);
    if (p == end && sac_token_bytes(t->model, id, name, sizeof name, &n_name, NULL) == SAC_OK &&
        n_name <= sizeof name) {
        p = name;
        end = name + n_name;
    }
    while (p < end && n + 4 < sizeof text) {
        size_t length;
        bool valid = sac_utf8_next(p, end, &length, NULL);
        memcpy(text + n, valid ? p : SAC_UTF8_REPLACEMENT, valid ? length : 3);
        n += valid ? length : 3;
        p += length;
    }
    return json_stringn(text, n);
}

static json_t *token_bytes(const serve_tokens *t, int32_t id) {
    json_t *j = json_array();
    for (uint32_t i = 0; id >= 0 && id < t->n && i < t->length[id]; i++)
        json_array_append_new(j, json_integer((unsigned char)t->bytes[id][i]));
    return j;
}

static json_t *entry_json(const serve_tokens *t, int32_t id, float logprob) {
    double shown = logprob < -9999 ? -9999 : logprob; /* JSON has no infinity; OpenAI writes this */
    return json_pack("{s:o, s:f, s:o}", "token", token_text(t, id), "logprob", shown, "bytes",
                     token_bytes(t, id));
}

static void add_logprob(serve_answer *a, const sac_token_event *token) {
    const serve_tokens *t = a->job->server->tokens;
    json_t *entry = entry_json(t, token->id, token->logprob), *top = json_array();
    for (int i = 0; i < token->n_top; i++)
        json_array_append_new(top, entry_json(t, token->top[i].id, token->top[i].logprob));
    json_object_set_new(entry, "top_logprobs", top);
    if (!a->job->request->is_chat) json_object_set_new(entry, "offset", json_integer((json_int_t)a->n_bytes));
    a->n_bytes += token->id >= 0 && token->id < t->n ? t->length[token->id] : 0;
    json_array_append_new(a->logprobs, entry);
}

void serve_answer_token(serve_answer *a, const sac_token_event *token) {
    const serve_mark *mark = a->split ? serve_tokens_mark(a->job->server->tokens, token->id) : NULL;
    if (a->job->request->logprobs) add_logprob(a, token);
    if (a->split && splitter_is_reasoning(a->split)) a->n_reasoning++;
    if (mark) splitter_feed(a->split, mark->name, mark->n);
}

/* A text completion's form: four lists side by side. */
static json_t *completion_logprobs(const json_t *entries) {
    json_t *tokens = json_array(), *logprobs = json_array(), *tops = json_array(), *offsets = json_array();
    size_t i, k;
    json_t *entry, *other;
    json_array_foreach(entries, i, entry) {
        json_t *top = json_object();
        json_array_foreach(json_object_get(entry, "top_logprobs"), k, other) json_object_set(
            top, json_string_value(json_object_get(other, "token")), json_object_get(other, "logprob"));
        json_array_append(tokens, json_object_get(entry, "token"));
        json_array_append(logprobs, json_object_get(entry, "logprob"));
        json_array_append(offsets, json_object_get(entry, "offset"));
        json_array_append_new(tops, top);
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", tokens, "token_logprobs", logprobs, "top_logprobs",
                     tops, "text_offset", offsets);
}

/* {"content": [...]} of a chat, or null; of what has come since it was taken last. */
static json_t *take_logprobs(serve_answer *a) {
    if (!a->logprobs) return json_null();
    json_t *entries = a->logprobs;
    a->logprobs = json_array();
    if (a->job->request->is_chat) return json_pack("{s:o, s:n}", "content", entries, "refusal");
    json_t *j = completion_logprobs(entries);
    json_decref(entries);
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
    return j->request->is_chat ? "chat.completion.chunk" : "text_completion";
}

static void send_chunk(serve_answer *a, json_t *choice) {
    serve_job *j = a->job;
    json_t *event = envelope(j, chunk_name(j), json_pack("[o]", choice));
    if (j->request->include_usage) json_object_set_new(event, "usage", json_null());
    send_event(j, event);
}

static json_t *choice_of(serve_answer *a, const char *text, size_t n, const char *finish_reason) {
    if (!a->job->request->is_chat)
        return json_pack("{s:i, s:s%, s:o, s:s?}", "index", a->choice, "text", text, n, "logprobs",
                         take_logprobs(a), "finish_reason", finish_reason);
    json_t *delta = n ? serve_message_delta(&a->message, SPLITTER_TEXT, text, n) : json_object();
    return json_pack("{s:i, s:o, s:o, s:s?}", "index", a->choice, "delta", delta, "logprobs",
                     take_logprobs(a), "finish_reason", finish_reason);
}

static const serve_prompt *prompt_of(const serve_answer *a) {
    const serve_request *r = a->job->request;
    return r->echo ? &r->prompts[a->choice / r->n_choices] : NULL;
}

static void send_prompt(serve_answer *a) {
    size_t n = 0;
    char *text = serve_prompt_text(prompt_of(a), a->job->server->model, &n);
    if (text) send_chunk(a, choice_of(a, text, n, NULL));
    free(text);
}

void serve_answer_start(serve_answer *a) {
    if (!a->job->request->stream || a->has_role) return;
    a->has_role = true;
    if (a->job->request->echo) send_prompt(a);
    if (a->job->request->is_chat)
        send_chunk(a, json_pack("{s:i, s:{s:s, s:s}, s:n, s:n}", "index", a->choice, "delta", "role",
                                "assistant", "content", "", "logprobs", "finish_reason"));
}

static void send_delta(serve_answer *a, json_t *delta, const char *finish_reason) {
    send_chunk(a, json_pack("{s:i, s:o, s:o, s:s?}", "index", a->choice, "delta", delta, "logprobs",
                            take_logprobs(a), "finish_reason", finish_reason));
}

static void on_part(void *ctx, splitter_kind kind, const char *text, size_t n) {
    serve_answer *a = ctx;
    int n_before = splitter_n_calls(a->split) - (kind == SPLITTER_ARGUMENTS); /* calls before this one */
    bool is_call = kind == SPLITTER_CALL || kind == SPLITTER_ARGUMENTS;
    if (is_call && n_before > 0 && !a->job->request->parallel_calls) return;
    if (kind == SPLITTER_REASONING && !a->job->request->include_reasoning) return;
    if (!a->job->request->stream) {
        serve_message_add(&a->message, kind, text, n);
        return;
    }
    serve_answer_start(a);
    send_delta(a, serve_message_delta(&a->message, kind, text, n), NULL);
}

void serve_answer_text(serve_answer *a, const char *utf8, size_t n) {
    if (a->split) {
        splitter_feed(a->split, utf8, n);
    } else if (a->job->request->stream && n) {
        serve_answer_start(a);
        send_chunk(a, choice_of(a, utf8, n, NULL));
    }
}

static void finish_stream(serve_answer *a) {
    serve_job *j = a->job;
    if (j->request->include_usage || a->places || j->request->warnings) {
        json_t *event = envelope(j, chunk_name(j), json_array());
        json_object_set(event, "usage", a->usage);
        if (j->request->warnings) json_object_set(event, "warnings", j->request->warnings);
        if (a->places) json_object_set(event, "saccade", a->places);
        send_event(j, event);
    }
}

/* ---------------------------------------------------------------- whole */

/* A text completion's, behind its prompt where that is wanted. */
static json_t *whole_text(serve_answer *a, const sac_result *r, const char *finish_reason) {
    size_t n = 0;
    char *prompt = prompt_of(a) ? serve_prompt_text(prompt_of(a), a->job->server->model, &n) : NULL;
    serve_buffer all = {0};
    serve_buffer_add(&all, prompt, n);
    serve_buffer_add(&all, r->text, r->n_text_bytes);
    json_t *choice = choice_of(a, all.n ? all.data : "", all.n, finish_reason);
    serve_buffer_free(&all);
    free(prompt);
    return choice;
}

static json_t *whole_choice(serve_answer *a, const sac_result *r, const char *finish_reason) {
    if (!a->job->request->is_chat) return whole_text(a, r, finish_reason);
    if (!a->split) serve_message_add(&a->message, SPLITTER_TEXT, r->text, r->n_text_bytes);
    return json_pack("{s:i, s:o, s:o, s:s}", "index", a->choice, "message", serve_message_json(&a->message),
                     "logprobs", take_logprobs(a), "finish_reason", finish_reason);
}

static void finish_whole(serve_answer *a) {
    serve_job *j = a->job;
    json_t *whole = envelope(j, j->request->is_chat ? "chat.completion" : "text_completion", a->choices);
    a->choices = NULL;
    json_object_set(whole, "usage", a->usage);
    if (a->places) json_object_set(whole, "saccade", a->places);
    if (j->request->warnings) json_object_set(whole, "warnings", j->request->warnings);
    char *text = json_dumps(whole, JSON_COMPACT);
    json_decref(whole);
    if (text) serve_job_output(j, text, strlen(text));
    free(text);
}

/* ---------------------------------------------------------------- choices */

static void add_to(json_t *usage, const char *key, int64_t n) {
    json_int_t had = json_integer_value(json_object_get(usage, key));
    json_object_set_new(usage, key, json_integer(had + (json_int_t)n));
}

static void count_usage(serve_answer *a, const sac_result *r, double kept_ratio) {
    if (!a->usage) {
        a->usage = usage_json(a->job->request, r, kept_ratio);
    } else {
        int64_t n_prompt = a->choice % a->job->request->n_choices ? 0 : r->n_prompt_tokens; /* of a new one */
        add_to(a->usage, "prompt_tokens", n_prompt);
        add_to(a->usage, "completion_tokens", r->n_tokens);
        add_to(a->usage, "total_tokens", n_prompt + r->n_tokens);
    }
    json_object_set_new(json_object_get(a->usage, "completion_tokens_details"), "reasoning_tokens",
                        json_integer((json_int_t)a->n_reasoning));
}

/* A choice that calls tools ends for them, unless it was cut. */
static const char *reason_of(const serve_answer *a, const sac_result *r) {
    bool calls = a->split && splitter_n_calls(a->split) > 0 && !strcmp(r->finish_reason, "stop");
    return calls ? "tool_calls" : r->finish_reason;
}

void serve_answer_choice(serve_answer *a, const sac_result *r, double kept_ratio) {
    count_usage(a, r, kept_ratio);
    if (a->split) splitter_finish(a->split);
    if (a->job->request->stream) {
        serve_answer_start(a);
        send_chunk(a, choice_of(a, "", 0, reason_of(a, r)));
    } else {
        json_array_append_new(a->choices, whole_choice(a, r, reason_of(a, r)));
    }
    serve_message_clear(&a->message);
    if (a->split) splitter_restart(a->split);
    a->choice++;
    a->has_role = false;
    a->n_bytes = 0;
}

void serve_answer_finish(serve_answer *a) {
    if (a->job->request->stream)
        finish_stream(a);
    else
        finish_whole(a);
}
