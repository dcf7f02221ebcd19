/* voice_responses.c - OpenAI's /v1/responses: an answer as a list of items, whole or as numbered events. */
#define _GNU_SOURCE
#include "make_id.h"
#include "state.h"
#include "usage.h"
#include "voice.h"

#include <string.h>

/* ---------------------------------------------------------------- events */

/* `fields` goes over. */
static void send_event(serve_answer *a, const char *type, json_t *fields) {
    if (!a->job->request->stream) {
        json_decref(fields);
        return;
    }
    json_object_set_new(fields, "type", json_string(type));
    json_object_set_new(fields, "sequence_number", json_integer((json_int_t)a->n_events++));
    serve_voice_send(a->job, type, fields);
}

static json_int_t index_of(const serve_answer *a) {
    return (json_int_t)serve_blocks_index(&a->blocks);
}

static json_t *id_of(const serve_answer *a) {
    return json_object_get(serve_blocks_last(&a->blocks), "id");
}

/* Of a piece of the open item's one content part. */
static json_t *place_in_content(const serve_answer *a) {
    return json_pack("{s:O, s:I, s:i}", "item_id", id_of(a), "output_index", index_of(a), "content_index", 0);
}

static json_t *place(const serve_answer *a) {
    return json_pack("{s:O, s:I}", "item_id", id_of(a), "output_index", index_of(a));
}

/* An event of the open item as it is now. */
static void send_item(serve_answer *a, const char *type) {
    json_t *item = json_deep_copy(serve_blocks_last(&a->blocks));
    send_event(a, type, json_pack("{s:I, s:o}", "output_index", index_of(a), "item", item));
}

/* ---------------------------------------------------------------- items */

static json_t *content_part(splitter_kind kind) {
    return kind == SPLITTER_TEXT
               ? json_pack("{s:s, s:s, s:[]}", "type", "output_text", "text", "", "annotations")
               : json_pack("{s:s, s:s}", "type", "reasoning_text", "text", "");
}

/* A call's first piece is its name. */
static json_t *new_item(serve_answer *a, splitter_kind kind, const char *name, size_t n) {
    char id[40], call[40];
    serve_make_id(id, sizeof id, kind == SPLITTER_TEXT ? "msg_" : kind == SPLITTER_REASONING ? "rs_" : "fc_");
    if (kind == SPLITTER_TEXT)
        return json_pack("{s:s, s:s, s:s, s:s, s:[]}", "id", id, "type", "message", "role", "assistant",
                         "status", "in_progress", "content");
    if (kind == SPLITTER_REASONING)
        return json_pack("{s:s, s:s, s:s, s:[], s:[]}", "id", id, "type", "reasoning", "status",
                         "in_progress", "summary", "content");
    serve_message_call_id(&a->message, call, sizeof call);
    return json_pack("{s:s, s:s, s:s, s:s, s:s%, s:s}", "id", id, "type", "function_call", "status",
                     "in_progress", "call_id", call, "name", name, n, "arguments", "");
}

static void close_item(serve_answer *a, const char *status);

static void open_item(serve_answer *a, splitter_kind kind, const char *name, size_t n) {
    close_item(a, "completed");
    serve_blocks_open(&a->blocks, kind, new_item(a, kind, name, n));
    send_item(a, "response.output_item.added");
    if (kind == SPLITTER_CALL) return;
    json_t *event = place_in_content(a);
    json_object_set_new(event, "part", content_part(kind));
    send_event(a, "response.content_part.added", event);
    json_array_append_new(json_object_get(serve_blocks_last(&a->blocks), "content"), content_part(kind));
}

/* The content part gets its text, and that of a message its log probabilities. */
static void close_content(serve_answer *a) {
    bool text = a->blocks.kind == SPLITTER_TEXT;
    json_t *item = serve_blocks_last(&a->blocks), *part = json_array_get(json_object_get(item, "content"), 0);
    json_object_set_new(part, "text", serve_blocks_text(&a->blocks));
    json_t *event = place_in_content(a);
    json_object_set(event, "text", json_object_get(part, "text"));
    if (text) {
        json_t *probs = json_object_get(part, "logprobs");
        json_object_set_new(event, "logprobs", probs ? json_incref(probs) : json_array());
    }
    send_event(a, text ? "response.output_text.done" : "response.reasoning_text.done", event);
    event = place_in_content(a);
    json_object_set(event, "part", part);
    send_event(a, "response.content_part.done", event);
}

static void close_call(serve_answer *a) {
    json_t *item = serve_blocks_last(&a->blocks), *event = place(a);
    json_object_set_new(item, "arguments", serve_blocks_text(&a->blocks));
    json_object_set(event, "name", json_object_get(item, "name"));
    json_object_set(event, "arguments", json_object_get(item, "arguments"));
    send_event(a, "response.function_call_arguments.done", event);
}

static void close_item(serve_answer *a, const char *status) {
    if (!a->blocks.open) return;
    if (a->blocks.kind == SPLITTER_CALL)
        close_call(a);
    else
        close_content(a);
    json_object_set_new(serve_blocks_last(&a->blocks), "status", json_string(status));
    send_item(a, "response.output_item.done");
    serve_blocks_close(&a->blocks);
}

/* ---------------------------------------------------------------- the whole */

static void put_default(json_t *object, const char *key, json_t *value) {
    if (json_object_get(object, key))
        json_decref(value);
    else
        json_object_set_new(object, key, value);
}

static json_t *usage_of(const json_t *u) {
    if (!u) return json_null();
    json_t *j =
        json_pack("{s:I, s:{s:I, s:i}, s:I, s:O, s:I}", "input_tokens", (json_int_t)serve_usage_prompt(u),
                  "input_tokens_details", "cached_tokens", (json_int_t)serve_usage_cached(u),
                  "cache_write_tokens", 0, "output_tokens", (json_int_t)serve_usage_answer(u),
                  "output_tokens_details", serve_usage_details(u), "total_tokens",
                  (json_int_t)(serve_usage_prompt(u) + serve_usage_answer(u)));
    serve_usage_copy_own(j, u);
    return j;
}

static json_t *response_of(const serve_answer *a, const char *status) {
    const serve_job *j = a->job;
    const serve_request *r = j->request;
    json_t *own = json_pack("{s:s, s:s, s:I, s:s, s:n, s:n, s:s, s:n, s:b, s:b, s:f, s:f, s:s, s:o}", "id",
                            j->id, "object", "response", "created_at", (json_int_t)j->created, "status",
                            status, "error", "incomplete_details", "model", j->model, "previous_response_id",
                            "store", 0, "background", 0, "temperature", r->sampling.temperature, "top_p",
                            r->sampling.top_p, "truncation", "disabled", "usage", usage_of(a->usage));
    json_object_update(own, r->said);
    put_default(own, "instructions", json_null());
    put_default(own, "max_output_tokens", json_null());
    put_default(own, "metadata", json_object());
    put_default(own, "parallel_tool_calls", json_true());
    put_default(own, "reasoning", json_pack("{s:n, s:n}", "effort", "summary"));
    put_default(own, "text", json_pack("{s:{s:s}}", "format", "type", "text"));
    put_default(own, "tool_choice", json_string("auto"));
    put_default(own, "tools", json_array());
    put_default(own, "top_logprobs", json_integer(0));
    json_object_set_new(own, "output", a->blocks.list ? json_incref(a->blocks.list) : json_array());
    if (r->warnings) json_object_set(own, "warnings", r->warnings);
    if (a->places) json_object_set(own, "saccade", a->places);
    return own;
}

static void start(serve_answer *a) {
    send_event(a, "response.created", json_pack("{s:o}", "response", response_of(a, "in_progress")));
    send_event(a, "response.in_progress", json_pack("{s:o}", "response", response_of(a, "in_progress")));
}

/* Log probabilities are of texts alone. */
static json_t *take_probs(serve_answer *a) {
    json_t *new = serve_voice_take_probs(a);
    if (a->blocks.kind != SPLITTER_TEXT || !new) {
        json_decref(new);
        return json_array();
    }
    json_t *part = json_array_get(json_object_get(serve_blocks_last(&a->blocks), "content"), 0);
    if (!json_object_get(part, "logprobs")) json_object_set_new(part, "logprobs", json_array());
    json_array_extend(json_object_get(part, "logprobs"), new);
    return new;
}

static void part(serve_answer *a, splitter_kind kind, const char *text, size_t n) {
    static const char *const deltas[] = {[SPLITTER_TEXT] = "response.output_text.delta",
                                         [SPLITTER_REASONING] = "response.reasoning_text.delta",
                                         [SPLITTER_CALL] = NULL,
                                         [SPLITTER_ARGUMENTS] = "response.function_call_arguments.delta"};
    if (!serve_blocks_goes_on(&a->blocks, kind)) open_item(a, kind, text, n);
    json_t *probs = take_probs(a);
    if (kind == SPLITTER_CALL) {
        json_decref(probs);
        return;
    }
    serve_buffer_add(&a->blocks.text, text, n);
    json_t *event = kind == SPLITTER_ARGUMENTS ? place(a) : place_in_content(a);
    json_object_set_new(event, "delta", json_stringn(text, n));
    if (kind == SPLITTER_TEXT) json_object_set(event, "logprobs", probs);
    json_decref(probs);
    send_event(a, deltas[kind], event);
}

static void choice(serve_answer *a, const sac_result *r, const char *reason) {
    (void)r;
    bool cut = !strcmp(reason, "length");
    strcpy(a->reason, cut ? "length" : "stop");
    if (!a->blocks.list) open_item(a, SPLITTER_TEXT, "", 0);
    if (a->blocks.open) json_decref(take_probs(a)); /* of tokens that end it */
    close_item(a, cut ? "incomplete" : "completed");
}

static void finish(serve_answer *a) {
    bool cut = !strcmp(a->reason, "length");
    json_t *whole = response_of(a, cut ? "incomplete" : "completed");
    if (cut)
        json_object_set_new(whole, "incomplete_details", json_pack("{s:s}", "reason", "max_output_tokens"));
    if (!a->job->request->stream)
        serve_voice_reply(a->job, whole);
    else
        send_event(a, cut ? "response.incomplete" : "response.completed",
                   json_pack("{s:o}", "response", whole));
}

const serve_voice serve_voice_responses = {start, NULL, part, choice, finish};
