#include "message.h"
#include "make_id.h"

#include <string.h>

void serve_message_call_id(const serve_message *m, char *id, size_t room) {
    serve_make_id(id, room, m->id_length ? "" : "call_");
    if (m->id_length) id[m->id_length < room ? m->id_length : room - 1] = 0;
}

static json_t *call_json(const serve_message *m, const char *name, size_t n) {
    char id[40];
    serve_message_call_id(m, id, sizeof id);
    return json_pack("{s:s, s:s, s:{s:s%, s:s}}", "id", id, "type", "function", "function", "name", name, n,
                     "arguments", "");
}

/* The last call's arguments are whole, or as whole as they will be. */
static void end_call(serve_message *m) {
    size_t n = json_array_size(m->calls);
    json_t *function = n ? json_object_get(json_array_get(m->calls, n - 1), "function") : NULL;
    if (function && m->arguments.n)
        json_object_set_new(function, "arguments", json_stringn(m->arguments.data, m->arguments.n));
    if (m->arguments.n) serve_buffer_drop(&m->arguments, m->arguments.n);
}

static void begin_call(serve_message *m, const char *name, size_t n) {
    end_call(m);
    if (!m->calls) m->calls = json_array();
    json_array_append_new(m->calls, call_json(m, name, n));
}

void serve_message_add(serve_message *m, splitter_kind kind, const char *text, size_t n) {
    switch (kind) {
    case SPLITTER_TEXT: serve_buffer_add(&m->text, text, n); break;
    case SPLITTER_REASONING: serve_buffer_add(&m->reasoning, text, n); break;
    case SPLITTER_ARGUMENTS: serve_buffer_add(&m->arguments, text, n); break;
    default: begin_call(m, text, n);
    }
}

json_t *serve_message_delta(serve_message *m, splitter_kind kind, const char *text, size_t n) {
    json_t *call;
    if (kind == SPLITTER_TEXT) return json_pack("{s:s%}", "content", text, n);
    if (kind == SPLITTER_REASONING)
        return json_pack("{s:s%, s:s%}", "reasoning_content", text, n, "reasoning", text, n);
    if (kind == SPLITTER_CALL) {
        begin_call(m, text, n);
        call = json_copy(json_array_get(m->calls, json_array_size(m->calls) - 1));
    } else {
        call = json_pack("{s:{s:s%}}", "function", "arguments", text, n);
    }
    json_object_set_new(call, "index", json_integer((json_int_t)json_array_size(m->calls) - 1));
    return json_pack("{s:[o]}", "tool_calls", call);
}

json_t *serve_message_json(serve_message *m) {
    bool silent = m->text.n == 0 && (m->calls || m->reasoning.n);
    end_call(m);
    json_t *j =
        json_pack("{s:s, s:o, s:n}", "role", "assistant", "content",
                  silent ? json_null() : json_stringn(m->text.n ? m->text.data : "", m->text.n), "refusal");
    if (m->reasoning.n) {
        json_object_set_new(j, "reasoning_content", json_stringn(m->reasoning.data, m->reasoning.n));
        json_object_set_new(j, "reasoning", json_stringn(m->reasoning.data, m->reasoning.n));
    }
    if (m->calls) json_object_set(j, "tool_calls", m->calls);
    return j;
}

void serve_message_clear(serve_message *m) {
    serve_buffer_free(&m->text);
    serve_buffer_free(&m->reasoning);
    serve_buffer_free(&m->arguments);
    json_decref(m->calls);
    m->calls = NULL;
}
