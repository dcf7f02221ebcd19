#include "other_api.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char reasoning_key[] = "reasoning_content";

bool serve_other_no_memory(serve_problem *p) {
    return serve_refuse(p, 503, NULL, "out_of_memory", "no memory for the request");
}

bool serve_other_set(json_t *object, const char *key, json_t *value, serve_problem *p) {
    return json_object_set_new(object, key, value) == 0 || serve_other_no_memory(p);
}

/* ---------------------------------------------------------------- all fields */

static const other_field *find(const other_field *fields, const char *name) {
    while (fields->name && strcmp(fields->name, name) != 0) fields++;
    return fields->name ? fields : NULL;
}

static bool refuse_field(const other_field *f, serve_problem *p) {
    return serve_refuse(p, 400, f->name, "unsupported", "'%s' is not taken: %s", f->name, f->instead);
}

static bool read_fields(other_request *o, const json_t *body, const other_field *fields) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)body, name, value) {
        const other_field *f = find(fields, name);
        if (json_is_null(value)) continue;
        if (f && !f->read) return refuse_field(f, o->p);
        if (f ? !f->read(o, value) : json_object_set(o->chat, name, value) != 0)
            return o->p->status ? false : serve_other_no_memory(o->p);
    }
    return true;
}

/* Pieces side by side, as one text. */
static json_t *joined(const json_t *pieces) {
    size_t n = 0, at = 0;
    for (size_t i = 0; i < json_array_size(pieces); i++) n += json_string_length(json_array_get(pieces, i));
    char *text = malloc(n + 1);
    if (!text) return NULL;
    for (size_t i = 0; i < json_array_size(pieces); i++) {
        const json_t *piece = json_array_get(pieces, i);
        memcpy(text + at, json_string_value(piece), json_string_length(piece));
        at += json_string_length(piece);
    }
    json_t *whole = json_stringn(text, n);
    free(text);
    return whole;
}

/* Reasoning comes in blocks, as many as somebody likes to send: they are put together once, at the end. */
static bool join_reasoning(other_request *o) {
    for (size_t i = 0; i < json_array_size(o->messages); i++) {
        json_t *message = json_array_get(o->messages, i), *pieces = json_object_get(message, reasoning_key);
        if (json_is_array(pieces) && !serve_other_set(message, reasoning_key, joined(pieces), o->p))
            return false;
    }
    return true;
}

bool serve_other_read(json_t **body, json_t **said, const other_field *fields, other_check_fn *finish,
                      serve_problem *p) {
    other_request o = {.chat = json_object(), .messages = json_array(), .said = json_object(), .p = p};
    bool ok = o.chat && o.messages && o.said
                  ? read_fields(&o, *body, fields) && finish(&o, *body) && join_reasoning(&o)
                  : serve_other_no_memory(p);
    if (ok) ok = json_object_set(o.chat, "messages", o.messages) == 0 || serve_other_no_memory(p);
    json_decref(o.messages);
    json_decref(ok ? *body : o.chat);
    if (!ok) {
        json_decref(o.said);
        return false;
    }
    *body = o.chat;
    *said = o.said;
    return true;
}

bool serve_other_check_prompt_fields(const other_request *o, const char *of) {
    static const char *const taken[] = {"model",
                                        "prompt",
                                        "messages",
                                        "user",
                                        "saccade",
                                        "media_io_kwargs",
                                        "mm_processor_kwargs",
                                        "chat_template_kwargs",
                                        "add_generation_prompt",
                                        "continue_final_message",
                                        "documents",
                                        "tools",
                                        "request_id",
                                        "priority",
                                        "metadata"};
    const char *key;
    json_t *value;
    json_object_foreach(o->chat, key, value) {
        size_t i = 0;
        while (i < sizeof taken / sizeof *taken && strcmp(taken[i], key) != 0) i++;
        if (i == sizeof taken / sizeof *taken)
            return serve_refuse(o->p, 400, key, "unsupported", "'%.80s' is not taken: nothing is sampled for %s", key, of);
    }
    return true;
}

/* ---------------------------------------------------------------- parts */

json_t *serve_other_text(const json_t *part, const char *param, serve_problem *p) {
    json_t *text = json_object_get(part, "text");
    if (!json_is_string(text)) {
        serve_refuse(p, 400, param, NULL, "'%s' has no \"text\"", param);
        return NULL;
    }
    json_t *j = json_pack("{s:s, s:O}", "type", "text", "text", text);
    if (!j) serve_other_no_memory(p);
    return j;
}

json_t *serve_other_media(const char *kind, const char *url, serve_problem *p) {
    json_t *j = json_pack("{s:s, s:{s:s}}", "type", kind, kind, "url", url);
    if (!j) serve_other_no_memory(p);
    return j;
}

/* ---------------------------------------------------------------- messages */

/* A message of the model that holds nothing but its reasoning waits for what it said. */
static json_t *last_of_model(const other_request *o, bool silent) {
    size_t n = json_array_size(o->messages);
    json_t *last = n ? json_array_get(o->messages, n - 1) : NULL;
    const char *role = json_string_value(json_object_get(last, "role"));
    if (!role || strcmp(role, "assistant") != 0) return NULL;
    bool has_said = json_object_get(last, "content") || json_object_get(last, "tool_calls");
    return silent && has_said ? NULL : last;
}

static json_t *append(other_request *o, json_t *message) {
    if (message && json_array_append_new(o->messages, message) == 0)
        return json_array_get(o->messages, json_array_size(o->messages) - 1);
    serve_other_no_memory(o->p);
    return NULL;
}

json_t *serve_other_message(other_request *o, const char *role, json_t *content) {
    json_t *thought = strcmp(role, "assistant") ? NULL : last_of_model(o, true);
    if (!thought)
        return append(o, content ? json_pack("{s:s, s:o}", "role", role, "content", content) : NULL);
    if (json_object_set_new(thought, "content", content) == 0) return thought;
    serve_other_no_memory(o->p);
    return NULL;
}

bool serve_other_call(other_request *o, const char *id, const char *name, json_t *arguments) {
    json_t *call = arguments ? json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", id, "type", "function", "function",
                                         "name", name, "arguments", arguments)
                             : NULL;
    json_t *last = last_of_model(o, false), *calls;
    if (!last) last = append(o, json_pack("{s:s}", "role", "assistant"));
    if (last && !json_object_get(last, "tool_calls")) json_object_set_new(last, "tool_calls", json_array());
    calls = json_object_get(last, "tool_calls");
    if (call && calls) return json_array_append_new(calls, call) == 0 || serve_other_no_memory(o->p);
    json_decref(call);
    return serve_other_no_memory(o->p);
}

bool serve_other_reasoning(other_request *o, const char *text) {
    json_t *thought = last_of_model(o, true);
    if (!thought) thought = append(o, json_pack("{s:s}", "role", "assistant"));
    if (thought && !json_object_get(thought, reasoning_key))
        json_object_set_new(thought, reasoning_key, json_array());
    json_t *pieces = json_object_get(thought, reasoning_key);
    return pieces && (json_array_append_new(pieces, json_string(text)) == 0 || serve_other_no_memory(o->p));
}
