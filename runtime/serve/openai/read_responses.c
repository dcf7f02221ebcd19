/* read_responses.c - a request of OpenAI's /v1/responses as a chat's. */
#include "fields.h"
#include "other_api.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* ---------------------------------------------------------------- content */

/* "image_url": U, or "file_id": the id of an upload. */
static json_t *read_medium(const json_t *part, const char *kind, const char *param, serve_problem *p) {
    const char *url = NULL, *id = NULL;
    if (!serve_field_string(part, kind, &url, p) || !serve_field_string(part, "file_id", &id, p)) return NULL;
    if ((url && *url) || (id && *id)) return serve_other_media(kind, url && *url ? url : id, p);
    serve_refuse(p, 400, param, NULL, "'%s' has neither '%s' nor 'file_id'", param, kind);
    return NULL;
}

static json_t *read_part(const json_t *part, const char *param, serve_problem *p) {
    const char *type = json_string_value(json_object_get(part, "type"));
    if (!type)
        return serve_refuse(p, 400, param, NULL, "'%s' must be an object with a \"type\"", param), NULL;
    if (!strcmp(type, "input_text") || !strcmp(type, "output_text") || !strcmp(type, "text"))
        return serve_other_text(part, param, p);
    if (!strcmp(type, "input_image")) return read_medium(part, "image_url", param, p);
    if (!strcmp(type, "input_video")) return read_medium(part, "video_url", param, p);
    serve_refuse(p, 400, param, "unsupported_content",
                 "'%s' is of type '%.40s': input_text, output_text, input_image and input_video are taken",
                 param, type);
    return NULL;
}

/* A text as it is, or a list of parts. */
static json_t *read_content(const json_t *content, const char *param, serve_problem *p) {
    if (json_is_string(content)) return json_incref((json_t *)(uintptr_t)content);
    if (!json_is_array(content) || json_array_size(content) == 0)
        return serve_refuse(p, 400, param, NULL, "'%s' must be a text or a list of parts", param), NULL;
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(content); i++) {
        char place[64];
        snprintf(place, sizeof place, "%.40s[%zu]", param, i);
        json_t *part = read_part(json_array_get(content, i), place, p);
        if (part && json_array_append_new(list, part) == 0) continue;
        if (part) serve_other_no_memory(p);
        json_decref(list);
        return NULL;
    }
    return list;
}

/* ---------------------------------------------------------------- items */

static bool read_message(other_request *o, const json_t *item, const char *param) {
    const char *role = json_string_value(json_object_get(item, "role"));
    char place[64];
    snprintf(place, sizeof place, "%.40s.content", param);
    if (!role) return serve_refuse(o->p, 400, param, NULL, "'%s' has no \"role\"", param);
    json_t *content = read_content(json_object_get(item, "content"), place, o->p);
    return content && serve_other_message(o, role, content);
}

static bool read_call(other_request *o, const json_t *item, const char *param) {
    const char *id = json_string_value(json_object_get(item, "call_id")),
               *name = json_string_value(json_object_get(item, "name"));
    json_t *arguments = json_object_get(item, "arguments");
    if (!id || !name || !json_is_string(arguments))
        return serve_refuse(o->p, 400, param, NULL, "'%s' must have the texts call_id, name and arguments",
                            param);
    return serve_other_call(o, id, name, json_incref(arguments));
}

static bool read_output(other_request *o, const json_t *item, const char *param) {
    json_t *id = json_object_get(item, "call_id"), *message;
    char place[64];
    snprintf(place, sizeof place, "%.40s.output", param);
    if (!json_is_string(id)) return serve_refuse(o->p, 400, param, NULL, "'%s' has no \"call_id\"", param);
    json_t *content = read_content(json_object_get(item, "output"), place, o->p);
    message = content ? serve_other_message(o, "tool", content) : NULL;
    return message && serve_other_set(message, "tool_call_id", json_incref(id), o->p);
}

/* The texts of a list of parts; *n of them. */
static bool read_thoughts(other_request *o, const json_t *item, const char *key, const char *param, size_t *n) {
    const json_t *list = json_object_get(item, key);
    *n = 0;
    if (!list || json_is_null(list)) return true;
    if (!json_is_array(list)) return serve_refuse(o->p, 400, param, NULL, "'%s.%s' must be a list", param, key);
    for (; *n < json_array_size(list); ++*n) {
        const char *text = json_string_value(json_object_get(json_array_get(list, *n), "text"));
        if (!text) return serve_refuse(o->p, 400, param, NULL, "'%s.%s[%zu]' has no \"text\"", param, key, *n);
        if (!serve_other_reasoning(o, text)) return false;
    }
    return true;
}

/* Its content, or what a server gave in place of it: a summary. What another has sealed cannot be read here. */
static bool read_reasoning(other_request *o, const json_t *item, const char *param) {
    const json_t *sealed = json_object_get(item, "encrypted_content");
    size_t n = 0;
    if (!read_thoughts(o, item, "content", param, &n)) return false;
    if (n == 0 && !read_thoughts(o, item, "summary", param, &n)) return false;
    if (n > 0 || !sealed || json_is_null(sealed) || (json_is_string(sealed) && !json_string_length(sealed))) return true;
    return serve_refuse(o->p, 400, param, "unsupported",
                        "'%s' has nothing but 'encrypted_content', which its own server alone can read: give its content or summary, "
                        "or leave it out",
                        param);
}

static bool read_item(other_request *o, const json_t *item, size_t i) {
    static const struct {
        const char *type;
        bool (*read)(other_request *o, const json_t *item, const char *param);
    } kinds[] = {{"message", read_message},
                 {"function_call", read_call},
                 {"function_call_output", read_output},
                 {"reasoning", read_reasoning}};
    char param[40];
    snprintf(param, sizeof param, "input[%zu]", i);
    const char *type = json_string_value(json_object_get(item, "type"));
    if (!type && json_object_get(item, "role")) type = "message";
    if (!type)
        return serve_refuse(o->p, 400, param, NULL, "'%s' must be an object with a \"type\" or a \"role\"",
                            param);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (!strcmp(kinds[k].type, type)) return kinds[k].read(o, item, param);
    return serve_refuse(
        o->p, 400, param, "unsupported",
        "'%s' is of type '%.40s': message, function_call, function_call_output and reasoning are taken",
        param, type);
}

static bool read_input(other_request *o, const json_t *input) {
    if (json_is_string(input)) return serve_other_message(o, "user", json_incref((json_t *)(uintptr_t)input));
    if (!json_is_array(input) || json_array_size(input) == 0)
        return serve_refuse(o->p, 400, "input", NULL, "'input' must be a text or a list of items");
    for (size_t i = 0; i < json_array_size(input); i++)
        if (!read_item(o, json_array_get(input, i), i)) return false;
    return true;
}

/* ---------------------------------------------------------------- settings */

static bool say(other_request *o, const char *key, const json_t *value) {
    return json_object_set(o->said, key, (json_t *)(uintptr_t)value) == 0 || serve_other_no_memory(o->p);
}

/* Before all messages: it is read last. */
static bool read_instructions(other_request *o, const json_t *value) {
    if (!json_is_string(value))
        return serve_refuse(o->p, 400, "instructions", NULL, "'instructions' must be a text");
    return say(o, "instructions", value);
}

static bool read_max_tokens(other_request *o, const json_t *value) {
    int64_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 1 || n > INT_MAX)
        return serve_refuse(o->p, 400, "max_output_tokens", NULL,
                            "'max_output_tokens' must be an integer of 1 or more");
    return say(o, "max_output_tokens", value) &&
           serve_other_set(o->chat, "max_completion_tokens", json_integer((json_int_t)n), o->p);
}

/* {"format": {...}, "verbosity"}; a format has what a chat's json_schema holds at its own level. */
static bool read_text(other_request *o, const json_t *value) {
    const json_t *format = NULL;
    json_t *verbosity = json_object_get(value, "verbosity");
    const char *type = "text";
    if (!json_is_object(value)) return serve_refuse(o->p, 400, "text", NULL, "'text' must be an object");
    if (!serve_field_object(value, "format", &format, o->p)) return false;
    if (format && !serve_field_string(format, "type", &type, o->p)) return false;
    if (!say(o, "text", value)) return false;
    if (verbosity && !serve_other_set(o->chat, "verbosity", json_incref(verbosity), o->p)) return false;
    if (strcmp(type, "json_schema") != 0)
        return !format || json_object_set(o->chat, "response_format", (json_t *)(uintptr_t)format) == 0;
    const json_t *schema = json_object_get(format, "schema");
    if (!json_is_object(schema))
        return serve_refuse(o->p, 400, "text.format", NULL, "'text.format.schema' must be a JSON schema");
    return serve_other_set(
        o->chat, "response_format",
        json_pack("{s:s, s:{s:O}}", "type", "json_schema", "json_schema", "schema", schema), o->p);
}

static bool read_tools(other_request *o, const json_t *value) {
    if (!json_is_array(value))
        return serve_refuse(o->p, 400, "tools", NULL, "'tools' must be a list of objects");
    json_t *tools = json_array();
    if (!serve_other_set(o->chat, "tools", tools, o->p)) return false;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *tool = json_array_get(value, i);
        const char *type = json_string_value(json_object_get(tool, "type"));
        if (!type || strcmp(type, "function") != 0)
            return serve_refuse(o->p, 400, "tools", "unsupported",
                                "'tools[%zu].type' must be 'function': no others are here", i);
        json_t *function = json_object();
        static const char *const keys[] = {"name", "description", "parameters"};
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            json_t *v = json_object_get(tool, keys[k]);
            if (v && !json_is_null(v)) json_object_set(function, keys[k], v);
        }
        json_t *chat_tool = json_pack("{s:s, s:o}", "type", "function", "function", function);
        if (!chat_tool || json_array_append_new(tools, chat_tool) != 0) return serve_other_no_memory(o->p);
    }
    return say(o, "tools", value);
}

static bool read_tool_choice(other_request *o, const json_t *value) {
    const char *type = json_string_value(json_object_get(value, "type"));
    json_t *name = json_object_get(value, "name"), *choice;
    if (json_is_string(value)) {
        choice = json_incref((json_t *)(uintptr_t)value);
    } else {
        if (!type || strcmp(type, "function") != 0 || !json_is_string(name))
            return serve_refuse(o->p, 400, "tool_choice", NULL,
                                "'tool_choice' must be 'none', 'auto', 'required' or {\"type\": "
                                "\"function\", \"name\": ...}");
        choice = json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", name);
    }
    return say(o, "tool_choice", value) && serve_other_set(o->chat, "tool_choice", choice, o->p);
}

static bool read_include(other_request *o, const json_t *value) {
    if (!json_is_array(value))
        return serve_refuse(o->p, 400, "include", NULL, "'include' must be a list of texts");
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *what = json_string_value(json_array_get(value, i));
        if (what && !strcmp(what, "reasoning.encrypted_content")) continue; /* it is given as it is */
        if (!what || strcmp(what, "message.output_text.logprobs") != 0)
            return serve_refuse(o->p, 400, "include", "unsupported",
                                "'include[%zu]' is '%.60s': message.output_text.logprobs is taken", i,
                                what ? what : "no text");
        if (!serve_other_set(o->chat, "logprobs", json_true(), o->p)) return false;
    }
    return true;
}

static bool read_top_logprobs(other_request *o, const json_t *value) {
    if (!json_is_integer(value))
        return serve_refuse(o->p, 400, "top_logprobs", NULL, "'top_logprobs' must be an integer");
    if (json_integer_value(value) == 0) return true;
    return say(o, "top_logprobs", value) && serve_other_set(o->chat, "logprobs", json_true(), o->p) &&
           serve_other_set(o->chat, "top_logprobs", json_incref((json_t *)(uintptr_t)value), o->p);
}

static bool read_reasoning_options(other_request *o, const json_t *value) {
    const char *key;
    json_t *v;
    if (!json_is_object(value))
        return serve_refuse(o->p, 400, "reasoning", NULL, "'reasoning' must be an object");
    json_object_foreach((json_t *)(uintptr_t)value, key, v) if (!json_is_null(v)) return serve_refuse(
        o->p, 400, "reasoning", "unsupported",
        "'reasoning.%.40s' is not taken: give 'chat_template_kwargs', as the model's template names it", key);
    return true;
}

static bool read_stream_options(other_request *o, const json_t *value) {
    const json_t *v = json_object_get(value, "include_obfuscation");
    if (!json_is_object(value) || json_object_size(value) != (size_t)(v != NULL) || (v && !json_is_false(v)))
        return serve_refuse(o->p, 400, "stream_options", "unsupported",
                            "'stream_options' takes \"include_obfuscation\": false alone");
    return true;
}

/* Taken with the one value that asks for nothing. */
static bool read_background(other_request *o, const json_t *value) {
    return json_is_false(value) ||
           serve_refuse(o->p, 400, "background", "unsupported", "'background' is not taken: nothing is kept");
}

static bool read_truncation(other_request *o, const json_t *value) {
    const char *text = json_string_value(value);
    return (text && !strcmp(text, "disabled")) ||
           serve_refuse(o->p, 400, "truncation", "unsupported",
                        "'truncation' must be 'disabled': a prompt that does not fit is refused");
}

/* Repeated in the answer, and a chat's as they are. */
#define REPEATED(field)                                                                                      \
    static bool repeat_##field(other_request *o, const json_t *value) {                                      \
        return say(o, #field, value) &&                                                                      \
               (json_object_set(o->chat, #field, (json_t *)(uintptr_t)value) == 0 ||                         \
                serve_other_no_memory(o->p));                                                                \
    }
REPEATED(metadata)
REPEATED(user)
REPEATED(parallel_tool_calls)
REPEATED(safety_identifier)
REPEATED(prompt_cache_key)

static bool put_instructions_first(other_request *o, const json_t *body) {
    json_t *text = json_object_get(o->said, "instructions");
    if (!json_object_get(body, "input") || json_is_null(json_object_get(body, "input")))
        return serve_refuse(o->p, 400, "input", NULL, "'input' is missing: a text or a list of items");
    if (!text) return true;
    return json_array_insert_new(o->messages, 0,
                                 json_pack("{s:s, s:O}", "role", "system", "content", text)) == 0 ||
           serve_other_no_memory(o->p);
}

bool serve_read_responses(json_t **body, json_t **said, serve_problem *p) {
    static const other_field fields[] = {
        {"input", read_input, NULL},
        {"instructions", read_instructions, NULL},
        {"max_output_tokens", read_max_tokens, NULL},
        {"text", read_text, NULL},
        {"tools", read_tools, NULL},
        {"tool_choice", read_tool_choice, NULL},
        {"include", read_include, NULL},
        {"top_logprobs", read_top_logprobs, NULL},
        {"reasoning", read_reasoning_options, NULL},
        {"stream_options", read_stream_options, NULL},
        {"background", read_background, NULL},
        {"truncation", read_truncation, NULL},
        {"metadata", repeat_metadata, NULL},
        {"user", repeat_user, NULL},
        {"parallel_tool_calls", repeat_parallel_tool_calls, NULL},
        {"safety_identifier", repeat_safety_identifier, NULL},
        {"prompt_cache_key", repeat_prompt_cache_key, NULL},
        {"previous_response_id", NULL, "nothing is kept; give the items of earlier turns in 'input'"},
        {"conversation", NULL, "nothing is kept; give the items of earlier turns in 'input'"},
        {"prompt", NULL, "there are no templates of prompts here"},
        {"max_tool_calls", NULL, "there are no tools of the server's own"},
        {"messages", NULL, "give 'input'"},
        {"max_tokens", NULL, "give 'max_output_tokens'"},
        {"max_completion_tokens", NULL, "give 'max_output_tokens'"},
        {"response_format", NULL, "give 'text'"},
        {"logprobs", NULL, "give 'include'"},
        {"n", NULL, "a response is one answer"},
        {"best_of", NULL, "a response is one answer"},
        {NULL, NULL, NULL}};
    return serve_other_read(body, said, fields, put_instructions_first, p);
}
