/* read_messages.c - a request of Anthropic's /v1/messages as a chat's. */
#include "fields.h"
#include "other_api.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { PARAM_ROOM = 64 };

static const char *type_of(const json_t *block) {
    return json_string_value(json_object_get(block, "type"));
}

static bool is_of(const json_t *block, const char *type) {
    const char *own = type_of(block);
    return own && !strcmp(own, type);
}

/* ---------------------------------------------------------------- media */

/* "source": {"type": "base64", "media_type", "data"}, {"type": "url", "url"} or {"type": "file", "file_id"}. */
static json_t *read_medium(const json_t *block, const char *kind, const char *param, serve_problem *p) {
    const json_t *source = json_object_get(block, "source");
    const char *type = type_of(source), *media = json_string_value(json_object_get(source, "media_type")),
               *data = json_string_value(json_object_get(source, "data"));
    if (!type)
        return serve_refuse(p, 400, param, NULL, "'%s.source' must be an object with a \"type\"", param),
               NULL;
    if (!strcmp(type, "base64")) {
        if (!media || !data)
            return serve_refuse(p, 400, param, NULL, "'%s.source' must have the texts media_type and data",
                                param),
                   NULL;
        json_t *url = json_sprintf("data:%s;base64,%s", media, data);
        json_t *j = url ? json_pack("{s:s, s:{s:o}}", "type", kind, kind, "url", url) : NULL;
        if (!j) serve_other_no_memory(p);
        return j;
    }
    const char *key = !strcmp(type, "url") ? "url" : !strcmp(type, "file") ? "file_id" : NULL;
    if (!key)
        return serve_refuse(p, 400, param, "unsupported",
                            "'%s.source.type' is '%.40s': base64, url and file are taken", param, type),
               NULL;
    const char *url = json_string_value(json_object_get(source, key));
    if (url && *url) return serve_other_media(kind, url, p);
    return serve_refuse(p, 400, param, NULL, "'%s.source.%s' must be a text", param, key), NULL;
}

/* What may stand in a user's message and in what a tool gave. */
static json_t *read_seen(const json_t *block, const char *param, serve_problem *p) {
    const char *type = type_of(block);
    if (!type)
        return serve_refuse(p, 400, param, NULL, "'%s' must be an object with a \"type\"", param), NULL;
    if (!strcmp(type, "text")) return serve_other_text(block, param, p);
    if (!strcmp(type, "image")) return read_medium(block, "image_url", param, p);
    if (!strcmp(type, "video")) return read_medium(block, "video_url", param, p);
    return serve_refuse(p, 400, param, "unsupported_content",
                        "'%s' is of type '%.40s': text, image, video, tool_use, tool_result and thinking are "
                        "taken, each "
                        "where it belongs",
                        param, type),
           NULL;
}

/* A text, or a list of such blocks. */
static json_t *read_content(const json_t *content, const char *param, serve_problem *p) {
    if (json_is_string(content)) return json_incref((json_t *)(uintptr_t)content);
    if (!json_is_array(content))
        return serve_refuse(p, 400, param, NULL, "'%s' must be a text or a list of blocks", param), NULL;
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(content); i++) {
        char place[PARAM_ROOM];
        snprintf(place, sizeof place, "%.44s[%zu]", param, i);
        json_t *part = read_seen(json_array_get(content, i), place, p);
        if (part && json_array_append_new(list, part) == 0) continue;
        if (part) serve_other_no_memory(p);
        json_decref(list);
        return NULL;
    }
    if (json_array_size(list)) return list;
    json_decref(list);
    return json_string("");
}

/* ---------------------------------------------------------------- the user's */

/* A message of its own for each result, before what the user says. */
static bool read_result(other_request *o, const json_t *block, const char *param) {
    json_t *id = json_object_get(block, "tool_use_id"), *content = json_object_get(block, "content"),
           *message;
    if (!json_is_string(id))
        return serve_refuse(o->p, 400, param, NULL, "'%s' has no \"tool_use_id\"", param);
    content = !content || json_is_null(content) ? json_string("") : read_content(content, param, o->p);
    message = content ? serve_other_message(o, "tool", content) : NULL;
    return message && serve_other_set(message, "tool_call_id", json_incref(id), o->p);
}

static bool read_user(other_request *o, const json_t *content, const char *param) {
    json_t *said = json_array();
    bool ok = said || serve_other_no_memory(o->p);
    for (size_t i = 0; ok && i < json_array_size(content); i++) {
        const json_t *block = json_array_get(content, i);
        char place[PARAM_ROOM];
        snprintf(place, sizeof place, "%.44s[%zu]", param, i);
        if (is_of(block, "tool_result")) {
            ok = read_result(o, block, place);
            continue;
        }
        json_t *part = read_seen(block, place, o->p);
        ok = part && (json_array_append_new(said, part) == 0 || serve_other_no_memory(o->p));
    }
    if (ok && json_array_size(said)) return serve_other_message(o, "user", said) != NULL;
    json_decref(said);
    return ok;
}

/* ---------------------------------------------------------------- the model's */

static bool read_use(other_request *o, const json_t *block, const char *param) {
    const char *id = json_string_value(json_object_get(block, "id")),
               *name = json_string_value(json_object_get(block, "name"));
    json_t *input = json_object_get(block, "input");
    if (!id || !name || !json_is_object(input))
        return serve_refuse(o->p, 400, param, NULL,
                            "'%s' must have the texts id and name, and the object input", param);
    return serve_other_call(o, id, name, json_incref(input));
}

static bool read_thinking(other_request *o, const json_t *block, const char *param) {
    const char *text = json_string_value(json_object_get(block, "thinking"));
    return text ? serve_other_reasoning(o, text)
                : serve_refuse(o->p, 400, param, NULL, "'%s' has no \"thinking\"", param);
}

/* What it thought and said is one message, */
static bool read_own_texts(other_request *o, const json_t *content, const char *param) {
    json_t *said = json_array();
    bool ok = said || serve_other_no_memory(o->p);
    for (size_t i = 0; ok && i < json_array_size(content); i++) {
        const json_t *block = json_array_get(content, i);
        char place[PARAM_ROOM];
        snprintf(place, sizeof place, "%.44s[%zu]", param, i);
        if (is_of(block, "tool_use") || is_of(block, "redacted_thinking"))
            continue; /* the latter nobody here can read */
        if (is_of(block, "thinking")) {
            ok = read_thinking(o, block, place);
            continue;
        }
        json_t *part = read_seen(block, place, o->p);
        ok = part && (json_array_append_new(said, part) == 0 || serve_other_no_memory(o->p));
    }
    if (ok && json_array_size(said)) return serve_other_message(o, "assistant", said) != NULL;
    json_decref(said);
    return ok;
}

/* with its calls. */
static bool read_own(other_request *o, const json_t *content, const char *param) {
    if (!read_own_texts(o, content, param)) return false;
    for (size_t i = 0; i < json_array_size(content); i++) {
        char place[PARAM_ROOM];
        snprintf(place, sizeof place, "%.44s[%zu]", param, i);
        if (is_of(json_array_get(content, i), "tool_use") && !read_use(o, json_array_get(content, i), place))
            return false;
    }
    return true;
}

static bool read_message(other_request *o, const json_t *message, size_t i) {
    const char *role = json_string_value(json_object_get(message, "role"));
    json_t *content = json_object_get(message, "content");
    char param[PARAM_ROOM];
    snprintf(param, sizeof param, "messages[%zu].content", i);
    bool own = role && !strcmp(role, "assistant");
    if (!role || (!own && strcmp(role, "user") != 0))
        return serve_refuse(o->p, 400, "messages", NULL, "'messages[%zu].role' must be 'user' or 'assistant'",
                            i);
    if (json_is_string(content)) return serve_other_message(o, role, json_incref(content)) != NULL;
    if (!json_is_array(content) || json_array_size(content) == 0)
        return serve_refuse(o->p, 400, param, NULL, "'%s' must be a text or a list of blocks", param);
    return own ? read_own(o, content, param) : read_user(o, content, param);
}

static bool read_messages(other_request *o, const json_t *value) {
    if (!json_is_array(value) || json_array_size(value) == 0)
        return serve_refuse(o->p, 400, "messages", NULL, "'messages' must be a list of messages");
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!read_message(o, json_array_get(value, i), i)) return false;
    return true;
}

/* Before all messages: kept until these are read. */
static bool read_system(other_request *o, const json_t *value) {
    json_t *content = read_content(value, "system", o->p);
    return content && serve_other_set(o->said, "system", content, o->p);
}

/* ---------------------------------------------------------------- tools */

static json_t *read_tool(const json_t *tool, size_t i, serve_problem *p) {
    const char *type = type_of(tool);
    json_t *name = json_object_get(tool, "name"), *schema = json_object_get(tool, "input_schema");
    if (type && strcmp(type, "custom") != 0) {
        serve_refuse(p, 400, "tools", "unsupported",
                     "'tools[%zu].type' is '%.60s': none of the server's own are here", i, type);
        return NULL;
    }
    if (!json_is_string(name) || !json_is_object(schema)) {
        serve_refuse(p, 400, "tools", NULL,
                     "'tools[%zu]' must have the text name and the object input_schema", i);
        return NULL;
    }
    json_t *function = json_pack("{s:O, s:O}", "name", name, "parameters", schema),
           *description = json_object_get(tool, "description");
    if (function && description) json_object_set(function, "description", description);
    json_t *j = function ? json_pack("{s:s, s:o}", "type", "function", "function", function) : NULL;
    if (!j) serve_other_no_memory(p);
    return j;
}

static bool read_tools(other_request *o, const json_t *value) {
    if (!json_is_array(value))
        return serve_refuse(o->p, 400, "tools", NULL, "'tools' must be a list of objects");
    json_t *tools = json_array();
    if (!serve_other_set(o->chat, "tools", tools, o->p)) return false;
    for (size_t i = 0; i < json_array_size(value); i++) {
        json_t *tool = read_tool(json_array_get(value, i), i, o->p);
        if (!tool) return false;
        if (json_array_append_new(tools, tool) != 0) return serve_other_no_memory(o->p);
    }
    return true;
}

static bool read_tool_choice(other_request *o, const json_t *value) {
    const char *type = type_of(value);
    json_t *name = json_object_get(value, "name"), *choice = NULL;
    bool alone = false;
    if (!serve_field_bool(value, "disable_parallel_tool_use", &alone, o->p)) return false;
    if (type && (!strcmp(type, "auto") || !strcmp(type, "none"))) choice = json_string(type);
    if (type && !strcmp(type, "any")) choice = json_string("required");
    if (type && !strcmp(type, "tool") && json_is_string(name))
        choice = json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", name);
    if (!choice)
        return serve_refuse(o->p, 400, "tool_choice", NULL,
                            "'tool_choice.type' must be 'auto', 'any', 'none', or 'tool' with a \"name\"");
    if (!serve_other_set(o->chat, "tool_choice", choice, o->p)) return false;
    return !alone || serve_other_set(o->chat, "parallel_tool_calls", json_false(), o->p);
}

/* ---------------------------------------------------------------- settings */

static bool read_max_tokens(other_request *o, const json_t *value) {
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > INT_MAX)
        return serve_refuse(o->p, 400, "max_tokens", NULL, "'max_tokens' must be an integer of 1 or more");
    return serve_other_set(o->chat, "max_tokens", json_incref((json_t *)(uintptr_t)value), o->p);
}

static bool read_stop(other_request *o, const json_t *value) {
    for (size_t i = 0; i < json_array_size(value); i++)
        if (json_string_length(json_array_get(value, i)) == 0) value = NULL;
    if (!json_is_array(value))
        return serve_refuse(o->p, 400, "stop_sequences", NULL,
                            "'stop_sequences' must be a list of texts, none empty");
    return json_array_size(value) == 0 ||
           serve_other_set(o->chat, "stop", json_incref((json_t *)(uintptr_t)value), o->p);
}

/* Whether the model thinks is said by a variable that templates know by this name; how much has no measure here. */
static bool read_thinking_options(other_request *o, const json_t *value) {
    const char *type = type_of(value);
    bool off = type && !strcmp(type, "disabled");
    if (!type || (!off && strcmp(type, "enabled") != 0 && strcmp(type, "adaptive") != 0))
        return serve_refuse(o->p, 400, "thinking", NULL,
                            "'thinking.type' must be 'enabled', 'disabled' or 'adaptive'");
    if (!strcmp(type, "adaptive")) return true;
    if (off && !serve_other_set(o->chat, "include_reasoning", json_false(), o->p)) return false;
    return serve_other_set(o->said, "enable_thinking", json_boolean(!off), o->p);
}

/* {"type": "json_schema", "schema": ...} */
static bool read_output_format(other_request *o, const json_t *value) {
    const char *type = type_of(value);
    json_t *schema = json_object_get(value, "schema");
    if (!type || strcmp(type, "json_schema") != 0 || !json_is_object(schema))
        return serve_refuse(o->p, 400, "output_format", NULL,
                            "an output's format must be {\"type\": \"json_schema\", \"schema\": ...}");
    return serve_other_set(
        o->chat, "response_format",
        json_pack("{s:s, s:{s:O}}", "type", "json_schema", "json_schema", "schema", schema), o->p);
}

static bool read_output_config(other_request *o, const json_t *value) {
    const char *key;
    json_t *v;
    if (!json_is_object(value))
        return serve_refuse(o->p, 400, "output_config", NULL, "'output_config' must be an object");
    json_object_foreach((json_t *)(uintptr_t)value, key, v) {
        if (json_is_null(v)) continue;
        if (strcmp(key, "format") != 0)
            return serve_refuse(o->p, 400, "output_config", "unsupported",
                                "'output_config.%.40s' is not taken: 'format' is", key);
        if (!read_output_format(o, v)) return false;
    }
    return true;
}

/* ---------------------------------------------------------------- all */

static bool put_system_first(other_request *o) {
    json_t *system = json_object_get(o->said, "system");
    bool ok =
        !system || json_array_insert_new(o->messages, 0,
                                         json_pack("{s:s, s:O}", "role", "system", "content", system)) == 0;
    json_object_clear(o->said); /* Anthropic's answers repeat nothing */
    return ok || serve_other_no_memory(o->p);
}

/* Over the request's own variables of the template. */
static bool put_variable(other_request *o, bool on) {
    const json_t *had = NULL;
    if (!serve_field_object(o->chat, "chat_template_kwargs", &had, o->p)) return false;
    json_t *all = had ? json_copy((json_t *)(uintptr_t)had) : json_object();
    if (all) json_object_set_new(all, "enable_thinking", json_boolean(on));
    return serve_other_set(o->chat, "chat_template_kwargs", all, o->p);
}

static bool finish(other_request *o, const json_t *body) {
    const json_t *thinks = json_object_get(o->said, "enable_thinking"),
                 *last = json_array_get(o->messages, json_array_size(o->messages) - 1);
    if (!json_object_get(body, "messages"))
        return serve_refuse(o->p, 400, "messages", NULL, "'messages' is missing");
    if (!json_object_get(o->chat, "max_tokens"))
        return serve_refuse(o->p, 400, "max_tokens", NULL, "'max_tokens' is missing");
    if (thinks && !put_variable(o, json_is_true(thinks))) return false;
    const char *role = json_string_value(json_object_get(last, "role"));
    if (role && !strcmp(role, "assistant") && json_object_get(last, "content") &&
        !json_object_get(last, "tool_calls") &&
        !serve_other_set(o->chat, "continue_final_message", json_true(), o->p))
        return false;
    return put_system_first(o);
}

bool serve_read_messages(json_t **body, json_t **said, serve_problem *p) {
    static const other_field fields[] = {
        {"messages", read_messages, NULL},
        {"system", read_system, NULL},
        {"max_tokens", read_max_tokens, NULL},
        {"stop_sequences", read_stop, NULL},
        {"tools", read_tools, NULL},
        {"tool_choice", read_tool_choice, NULL},
        {"thinking", read_thinking_options, NULL},
        {"output_format", read_output_format, NULL},
        {"output_config", read_output_config, NULL},
        {"container", NULL, "there are no containers here"},
        {"mcp_servers", NULL, "there are no tools of the server's own"},
        {"context_management", NULL, "nothing is left out of a conversation here"},
        {"max_completion_tokens", NULL, "give 'max_tokens'"},
        {"stop", NULL, "give 'stop_sequences'"},
        {"response_format", NULL, "give 'output_format'"},
        {"n", NULL, "a message is one answer"},
        {"best_of", NULL, "a message is one answer"},
        {"logprobs", NULL, "a message has none"},
        {"top_logprobs", NULL, "a message has none"},
        {"parallel_tool_calls", NULL, "give 'tool_choice.disable_parallel_tool_use'"},
        {"include_reasoning", NULL, "give 'thinking'"},
        {NULL, NULL, NULL}};
    return serve_other_read(body, said, fields, finish, p);
}
