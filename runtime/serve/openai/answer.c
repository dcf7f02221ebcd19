#define _GNU_SOURCE
#include "answer.h"
#include "dialect.h"
#include "state.h"
#include "token_probs.h"
#include "tools.h"
#include "usage.h"
#include "voice.h"

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

static const serve_voice *voice_of(serve_api api) {
    switch (api) {
    case SERVE_API_RESPONSES: return &serve_voice_responses;
    case SERVE_API_MESSAGES: return &serve_voice_messages;
    case SERVE_API_EMBEDDINGS: return &serve_voice_embeddings;
    case SERVE_API_SCORE:
    case SERVE_API_RERANK: return &serve_voice_score;
    default: return &serve_voice_openai;
    }
}

void serve_answer_begin(serve_answer *a, serve_job *j) {
    *a = (serve_answer){.job = j, .voice = voice_of(j->api)};
    if (!j->request->stream) a->choices = json_array();
    if (j->request->logprobs) a->logprobs = json_array();
    open_splitter(a);
}

void serve_answer_free(serve_answer *a) {
    splitter_close(a->split);
    serve_message_clear(&a->message);
    serve_blocks_free(&a->blocks);
    json_decref(a->logprobs);
    json_decref(a->prompt);
    json_decref(a->choices);
    json_decref(a->usage);
    json_decref(a->places);
    free(a->query);
    *a = (serve_answer){0};
}

/* ---------------------------------------------------------------- tokens */

/* A token's, about. */
static int64_t n_values_of(const serve_answer *a) {
    const serve_request *r = a->job->request;
    return (1 + r->sampling.top_logprobs) * (r->is_chat ? 8 : 2);
}

/* A choice begins with them. */
static void put_prompt(serve_answer *a) {
    a->n_characters = a->n_prompt_characters;
    if (!a->prompt || !a->logprobs) return;
    json_array_extend(a->logprobs, a->prompt);
    a->n_values += n_values_of(a) * (int64_t)json_array_size(a->prompt);
}

void serve_answer_prompt_part(serve_answer *a, json_t *entries) {
    if (json_array_size(entries)) a->voice->prompt(a, entries);
    json_decref(entries);
    a->prompt_told = true;
}

void serve_answer_prompt(serve_answer *a, json_t *entries, int64_t n_characters) {
    json_decref(a->prompt);
    a->prompt = entries;
    a->n_prompt_characters = n_characters;
    put_prompt(a);
}

static void add_logprob(serve_answer *a, const sac_token_event *token) {
    const serve_tokens *t = a->job->server->tokens;
    bool chat = a->job->request->is_chat;
    json_array_append_new(a->logprobs, chat ? serve_probs_of_chat(t, token)
                                            : serve_probs_of_text(t, token, true, a->n_characters));
    a->n_characters += serve_probs_n_characters(t, token->id);
    if (!a->job->request->stream || a->voice == &serve_voice_responses) a->n_values += n_values_of(a);
}

void serve_answer_token(serve_answer *a, const sac_token_event *token) {
    const serve_mark *mark = a->split ? serve_tokens_mark(a->job->server->tokens, token->id) : NULL;
    a->n_choice_tokens++;
    if (a->job->request->logprobs) add_logprob(a, token);
    if (a->split && splitter_is_reasoning(a->split)) a->n_reasoning++;
    if (mark) splitter_feed(a->split, mark->name, mark->n);
}

/* ---------------------------------------------------------------- text */

void serve_answer_start(serve_answer *a) {
    if (!a->job->request->stream || a->started) return;
    a->started = true;
    a->voice->start(a);
}

static void on_part(void *ctx, splitter_kind kind, const char *text, size_t n) {
    serve_answer *a = ctx;
    int n_before = splitter_n_calls(a->split) - (kind == SPLITTER_ARGUMENTS); /* calls before this one */
    bool is_call = kind == SPLITTER_CALL || kind == SPLITTER_ARGUMENTS;
    if (is_call && n_before > 0 && !a->job->request->parallel_calls) return;
    if (kind == SPLITTER_REASONING && !a->job->request->include_reasoning) return;
    serve_answer_start(a);
    a->voice->part(a, kind, text, n);
}

void serve_answer_text(serve_answer *a, const char *utf8, size_t n) {
    if (a->split) {
        splitter_feed(a->split, utf8, n);
    } else if (n) {
        serve_answer_start(a);
        a->voice->part(a, SPLITTER_TEXT, utf8, n);
    }
}

/* ---------------------------------------------------------------- choices */

static void count_usage(serve_answer *a, const sac_result *r, double kept_ratio) {
    const serve_request *request = a->job->request;
    if (a->usage)
        serve_usage_add(a->usage, a->choice % request->n_choices ? 0 : r->n_prompt_tokens, r);
    else
        a->usage = serve_usage_of(request, r, kept_ratio);
    serve_usage_set_reasoning(a->usage, a->n_reasoning);
}

/* A choice that calls tools ends for them, unless it was cut. */
static const char *reason_of(const serve_answer *a, const sac_result *r) {
    bool calls = a->split && splitter_n_calls(a->split) > 0 && !strcmp(r->finish_reason, "stop");
    return calls ? "tool_calls" : r->finish_reason;
}

void serve_answer_choice(serve_answer *a, const sac_result *r, double kept_ratio) {
    count_usage(a, r, kept_ratio);
    if (a->split) splitter_finish(a->split);
    serve_answer_start(a);
    a->voice->choice(a, r, reason_of(a, r));
    serve_message_clear(&a->message);
    if (a->split) splitter_restart(a->split);
    a->choice++;
    a->started = false;
    a->n_characters = a->n_choice_tokens = 0;
    if (a->choice % a->job->request->n_choices)
        put_prompt(a); /* of the next one, which has the same */
    else
        a->prompt_told = false, a->n_prompt_tokens = 0;
}

void serve_answer_finish(serve_answer *a) {
    a->voice->finish(a);
}

bool serve_answer_is_long(const serve_answer *a) {
    const int64_t many = 2000;
    return a->n_values > many || a->places;
}
