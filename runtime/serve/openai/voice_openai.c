/* voice_openai.c - OpenAI's chat completions and text completions: one JSON object, or the chunks of a stream. */
#define _GNU_SOURCE
#include "prompts.h"
#include "state.h"
#include "token_probs.h"
#include "voice.h"

#include <stdlib.h>
#include <string.h>

static json_t *envelope(const serve_job *j, const char *object, json_t *choices) {
    return json_pack("{s:s, s:s, s:I, s:s, s:o}", "id", j->id, "object", object, "created",
                     (json_int_t)j->created, "model", j->model, "choices", choices);
}

/* {"content": [...]} of a chat, or null; of what has come since it was taken last. Of a whole text completion the entries as they are:
 * there may be a million, and they become lists when the answer is put into words (say.h). */
static json_t *take_logprobs(serve_answer *a) {
    json_t *entries = serve_voice_take_probs(a);
    if (!entries) return json_null();
    if (a->job->request->is_chat) return json_pack("{s:o, s:n}", "content", entries, "refusal");
    if (!a->job->request->stream) return entries;
    json_t *j = serve_probs_lists(entries);
    json_decref(entries);
    return j;
}

static const serve_prompt *prompt_of(const serve_answer *a) {
    const serve_request *r = a->job->request;
    return r->echo ? &r->prompts[a->choice / r->n_choices] : NULL;
}

/* ---------------------------------------------------------------- streams */

static const char *chunk_name(const serve_job *j) {
    return j->request->is_chat ? "chat.completion.chunk" : "text_completion";
}

/* Of the chunk's choice, as vLLM counts it; a token that ended the answer is in none. */
static json_t *usage_so_far(const serve_answer *a) {
    const json_int_t prompt = a->n_prompt_tokens, answer = a->n_choice_tokens;
    return json_pack("{s:I, s:I, s:I}", "prompt_tokens", prompt, "completion_tokens", answer, "total_tokens", prompt + answer);
}

static void send_chunk(serve_answer *a, json_t *choice) {
    serve_job *j = a->job;
    const serve_request *r = j->request;
    json_t *event = envelope(j, chunk_name(j), json_pack("[o]", choice));
    if (r->include_usage) json_object_set_new(event, "usage", r->continuous_usage ? usage_so_far(a) : json_null());
    serve_voice_send(j, NULL, event);
}

static json_t *text_choice(serve_answer *a, const char *text, size_t n, const char *finish_reason) {
    return json_pack("{s:i, s:s%, s:o, s:s?}", "index", a->choice, "text", text, n, "logprobs",
                     take_logprobs(a), "finish_reason", finish_reason);
}

static json_t *delta_choice(serve_answer *a, json_t *delta, const char *finish_reason) {
    return json_pack("{s:i, s:o, s:o, s:s?}", "index", a->choice, "delta", delta, "logprobs",
                     take_logprobs(a), "finish_reason", finish_reason);
}

static void send_prompt(serve_answer *a) {
    size_t n = 0;
    char *text = serve_prompt_text(prompt_of(a), a->job->server->model, &n);
    if (text) send_chunk(a, text_choice(a, text, n, NULL));
    free(text);
}

/* The first part has the prompt's text. Its tokens' texts, one by one, may be others: a tokenizer may change a text, and a character may
 * be of several tokens. */
static void prompt(serve_answer *a, const json_t *entries) {
    const int n = a->job->request->n_choices;
    size_t n_bytes = 0;
    char *text = a->prompt_told ? NULL : serve_prompt_text(prompt_of(a), a->job->server->model, &n_bytes);
    for (int i = 0; i < n; i++)
        send_chunk(a, json_pack("{s:i, s:s%, s:o, s:n}", "index", a->choice + i, "text", text ? text : "", text ? n_bytes : (size_t)0,
                                "logprobs", serve_probs_lists(entries), "finish_reason"));
    free(text);
}

static void start(serve_answer *a) {
    if (a->job->request->echo && !a->prompt_told) send_prompt(a);
    if (a->job->request->is_chat)
        send_chunk(a, json_pack("{s:i, s:{s:s, s:s}, s:n, s:n}", "index", a->choice, "delta", "role",
                                "assistant", "content", "", "logprobs", "finish_reason"));
}

static void part(serve_answer *a, splitter_kind kind, const char *text, size_t n) {
    const serve_request *r = a->job->request;
    if (!r->stream && a->split)
        serve_message_add(&a->message, kind, text, n);
    else if (r->stream && r->is_chat)
        send_chunk(a, delta_choice(a, serve_message_delta(&a->message, kind, text, n), NULL));
    else if (r->stream)
        send_chunk(a, text_choice(a, text, n, NULL));
}

static void finish_stream(serve_answer *a) {
    serve_job *j = a->job;
    if (j->request->include_usage || a->places || j->request->warnings) {
        json_t *event = envelope(j, chunk_name(j), json_array());
        json_object_set(event, "usage", a->usage);
        if (j->request->warnings) json_object_set(event, "warnings", j->request->warnings);
        if (a->places) json_object_set(event, "saccade", a->places);
        serve_voice_send(j, NULL, event);
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
    json_t *choice = text_choice(a, all.n ? all.data : "", all.n, finish_reason);
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

static void choice(serve_answer *a, const sac_result *r, const char *reason) {
    if (!a->job->request->stream)
        json_array_append_new(a->choices, whole_choice(a, r, reason));
    else if (a->job->request->is_chat)
        send_chunk(a, delta_choice(a, json_object(), reason));
    else
        send_chunk(a, text_choice(a, "", 0, reason));
}

static void make_lists(json_t *choices) {
    size_t i;
    json_t *choice;
    json_array_foreach(choices, i, choice) {
        json_t *entries = json_object_get(choice, "logprobs");
        if (json_is_array(entries)) json_object_set_new(choice, "logprobs", serve_probs_lists(entries));
    }
}

static void finish_whole(serve_answer *a) {
    serve_job *j = a->job;
    if (!j->request->is_chat) make_lists(a->choices);
    json_t *whole = envelope(j, j->request->is_chat ? "chat.completion" : "text_completion", a->choices);
    a->choices = NULL;
    json_object_set(whole, "usage", a->usage);
    if (a->places) json_object_set(whole, "saccade", a->places);
    if (j->request->warnings) json_object_set(whole, "warnings", j->request->warnings);
    serve_voice_reply(j, whole);
}

static void finish(serve_answer *a) {
    if (a->job->request->stream)
        finish_stream(a);
    else
        finish_whole(a);
}

const serve_voice serve_voice_openai = {start, prompt, part, choice, finish};
