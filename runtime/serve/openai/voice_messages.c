/* voice_messages.c - Anthropic's /v1/messages: an answer as a list of content blocks, whole or as events. */
#define _GNU_SOURCE
#include "make_id.h"
#include "state.h"
#include "usage.h"
#include "voice.h"

#include <stdlib.h>
#include <string.h>

/* `fields` goes over. */
static void send_event(serve_answer *a, const char *type, json_t *fields) {
    if (!a->job->request->stream) {
        json_decref(fields);
        return;
    }
    json_object_set_new(fields, "type", json_string(type));
    serve_voice_send(a->job, type, fields);
}

static json_int_t index_of(const serve_answer *a) {
    return (json_int_t)serve_blocks_index(&a->blocks);
}

/* ---------------------------------------------------------------- blocks */

/* A call's first piece is its name. */
static json_t *new_block(splitter_kind kind, const char *name, size_t n) {
    char id[40];
    if (kind == SPLITTER_TEXT) return json_pack("{s:s, s:s}", "type", "text", "text", "");
    if (kind == SPLITTER_REASONING)
        return json_pack("{s:s, s:s, s:s}", "type", "thinking", "thinking", "", "signature", "");
    serve_make_id(id, sizeof id, "toolu_");
    return json_pack("{s:s, s:s, s:s%, s:{}}", "type", "tool_use", "id", id, "name", name, n, "input");
}

static void close_block(serve_answer *a) {
    json_t *block = serve_blocks_last(&a->blocks);
    if (!a->blocks.open) return;
    send_event(a, "content_block_stop", json_pack("{s:I}", "index", index_of(a)));
    if (a->blocks.kind == SPLITTER_CALL) {
        json_t *input = serve_blocks_value(&a->blocks); /* NULL where max_tokens cut it: it stays empty */
        if (json_is_object(input)) json_object_set(block, "input", input);
        json_decref(input);
    } else {
        json_object_set_new(block, a->blocks.kind == SPLITTER_TEXT ? "text" : "thinking",
                            serve_blocks_text(&a->blocks));
    }
    serve_blocks_close(&a->blocks);
}

static json_t *delta_of(splitter_kind kind, const char *text, size_t n) {
    switch (kind) {
    case SPLITTER_TEXT: return json_pack("{s:s, s:s%}", "type", "text_delta", "text", text, n);
    case SPLITTER_REASONING: return json_pack("{s:s, s:s%}", "type", "thinking_delta", "thinking", text, n);
    default: return json_pack("{s:s, s:s%}", "type", "input_json_delta", "partial_json", text, n);
    }
}

static void part(serve_answer *a, splitter_kind kind, const char *text, size_t n) {
    if (!serve_blocks_goes_on(&a->blocks, kind)) {
        close_block(a);
        json_t *block = new_block(kind, text, n);
        serve_blocks_open(&a->blocks, kind, block);
        send_event(a, "content_block_start",
                   json_pack("{s:I, s:o}", "index", index_of(a), "content_block", json_deep_copy(block)));
    }
    if (kind == SPLITTER_CALL) return;
    serve_buffer_add(&a->blocks.text, text, n);
    send_event(a, "content_block_delta",
               json_pack("{s:I, s:o}", "index", index_of(a), "delta", delta_of(kind, text, n)));
}

/* ---------------------------------------------------------------- the whole */

/* Tokens from the cache are counted apart from those of the input. */
static json_t *usage_of(const serve_answer *a) {
    const json_t *u = a->usage;
    int64_t cached = u ? serve_usage_cached(u) : 0, prompt = u ? serve_usage_prompt(u) : a->n_prompt_tokens;
    json_t *j = json_pack("{s:I, s:i, s:I, s:I}", "input_tokens", (json_int_t)(prompt - cached),
                          "cache_creation_input_tokens", 0, "cache_read_input_tokens", (json_int_t)cached,
                          "output_tokens", (json_int_t)(u ? serve_usage_answer(u) : 0));
    if (u) serve_usage_copy_own(j, u);
    return j;
}

static json_t *message_of(const serve_answer *a, json_t *content) {
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:n, s:n, s:o}", "id", a->job->id, "type", "message", "role",
                     "assistant", "model", a->job->model, "content", content, "stop_reason", "stop_sequence",
                     "usage", usage_of(a));
}

static void start(serve_answer *a) {
    send_event(a, "message_start", json_pack("{s:o}", "message", message_of(a, json_array())));
}

/* ---------------------------------------------------------------- its end */

/* Which of the request's stop texts stands behind the answer: its tokens reach over it. NULL = none. */
static const char *find_stop(const serve_answer *a, const sac_result *r) {
    const serve_request *request = a->job->request;
    const sac_model *m = a->job->server->model;
    const char *found = NULL;
    size_t n = 0;
    if (!request->sampling.n_stop || r->n_tokens == 0) return NULL;
    sac_detokenize_ids(m, r->tokens, (size_t)r->n_tokens, true, NULL, 0, &n, NULL);
    char *all = malloc(n + 1);
    if (all && sac_detokenize_ids(m, r->tokens, (size_t)r->n_tokens, true, all, n + 1, &n, NULL) == SAC_OK &&
        n > r->n_text_bytes)
        for (size_t i = 0; i < request->sampling.n_stop && !found; i++)
            if (memmem(all, n, request->stop[i], strlen(request->stop[i]))) found = request->stop[i];
    free(all);
    return found;
}

static void choice(serve_answer *a, const sac_result *r, const char *reason) {
    close_block(a);
    if (!strcmp(reason, "stop")) a->stopped_by = find_stop(a, r);
    strcpy(a->reason, !strcmp(reason, "length")       ? "max_tokens"
                      : !strcmp(reason, "tool_calls") ? "tool_use"
                      : a->stopped_by                 ? "stop_sequence"
                                                      : "end_turn");
}

static void add_own(const serve_answer *a, json_t *whole) {
    if (a->job->request->warnings) json_object_set(whole, "warnings", a->job->request->warnings);
    if (a->places) json_object_set(whole, "saccade", a->places);
}

static void finish(serve_answer *a) {
    if (a->job->request->stream) {
        json_t *end = json_pack("{s:{s:s, s:s?}, s:o}", "delta", "stop_reason", a->reason, "stop_sequence",
                                a->stopped_by, "usage", usage_of(a));
        add_own(a, end);
        send_event(a, "message_delta", end);
        send_event(a, "message_stop", json_object());
        return;
    }
    json_t *whole = message_of(a, a->blocks.list ? json_incref(a->blocks.list) : json_array());
    json_object_set_new(whole, "stop_reason", json_string(a->reason));
    if (a->stopped_by) json_object_set_new(whole, "stop_sequence", json_string(a->stopped_by));
    add_own(a, whole);
    serve_voice_reply(a->job, whole);
}

const serve_voice serve_voice_messages = {start, NULL, part, choice, finish};
