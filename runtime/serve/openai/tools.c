#include "tools.h"
#include "dialect.h"
#include "fields.h"
#include "json_size.h"

#include <stdio.h>
#include <string.h>

/* ---------------------------------------------------------------- the list */

static const json_t *function_of(const serve_request *r, size_t i) {
    return json_object_get(json_array_get(r->tools, i), "function");
}

const char *serve_tool_name(const serve_request *r, size_t i) {
    return json_string_value(json_object_get(function_of(r, i), "name"));
}

const json_t *serve_tool_parameters(const serve_request *r, size_t i) {
    const json_t *v = json_object_get(function_of(r, i), "parameters");
    return json_object_size(v) ? v : NULL;
}

bool serve_tools_know(const void *request, const char *name) {
    const serve_request *r = request;
    for (size_t i = 0; i < json_array_size(r->tools); i++)
        if (!strcmp(serve_tool_name(r, i), name)) return true;
    return false;
}

static bool check_tool(const serve_request *r, size_t i, serve_problem *p) {
    const char *type = json_string_value(json_object_get(json_array_get(r->tools, i), "type")),
               *name = serve_tool_name(r, i);
    const json_t *parameters = json_object_get(function_of(r, i), "parameters");
    if (!type || strcmp(type, "function") != 0)
        return serve_refuse(p, 400, "tools", NULL, "'tools[%zu].type' must be 'function'", i);
    if (!name || !*name || strlen(name) > 200)
        return serve_refuse(p, 400, "tools", NULL,
                            "'tools[%zu].function.name' must be a text of 1 to 200 bytes", i);
    return !parameters || json_is_null(parameters) || json_is_object(parameters) ||
           serve_refuse(p, 400, "tools", NULL, "'tools[%zu].function.parameters' must be a JSON schema", i);
}

static bool read_tools(serve_request *r, serve_problem *p) {
    const json_t *tools = json_object_get(r->json, "tools");
    if (!tools || json_is_null(tools)) return true;
    if (!json_is_array(tools))
        return serve_refuse(p, 400, "tools", NULL, "'tools' must be a list of objects");
    if (json_array_size(tools) > SERVE_MAX_TOOLS)
        return serve_refuse(p, 400, "tools", NULL, "more than %d tools", SERVE_MAX_TOOLS);
    if (json_array_size(tools) == 0) return true; /* as transformers' callers leave it out */
    r->tools = tools;
    for (size_t i = 0; i < json_array_size(tools); i++)
        if (!check_tool(r, i, p)) return false;
    return true;
}

/* ---------------------------------------------------------------- the choice */

static bool read_named(serve_request *r, const json_t *choice, serve_problem *p) {
    const char *type = json_string_value(json_object_get(choice, "type"));
    r->tool_name = json_string_value(json_object_get(json_object_get(choice, "function"), "name"));
    if (!type || strcmp(type, "function") != 0 || !r->tool_name)
        return serve_refuse(p, 400, "tool_choice", NULL,
                            "'tool_choice' must be 'none', 'auto', 'required' or {\"type\": \"function\", "
                            "\"function\": {\"name\": ...}}");
    return serve_tools_know(r, r->tool_name) ||
           serve_refuse(p, 400, "tool_choice", NULL,
                        "'tool_choice' names '%.80s', which is not among the tools", r->tool_name);
}

static bool read_choice(serve_request *r, serve_problem *p) {
    const json_t *choice = json_object_get(r->json, "tool_choice");
    const char *name = json_string_value(choice);
    r->tool_choice = r->tools ? SERVE_TOOLS_AUTO : SERVE_TOOLS_NONE;
    if (!choice || json_is_null(choice) || (name && !strcmp(name, "auto"))) return true;
    if (name && !strcmp(name, "none")) {
        r->tool_choice = SERVE_TOOLS_NONE;
        return true;
    }
    if (name ? strcmp(name, "required") != 0 : !json_is_object(choice)) return read_named(r, NULL, p);
    if (!r->tools)
        return serve_refuse(p, 400, "tool_choice", NULL,
                            "'tool_choice' asks for a call, and there are no 'tools'");
    r->tool_choice = SERVE_TOOLS_REQUIRED;
    return name || read_named(r, choice, p);
}

bool serve_tools_parse(serve_request *r, const serve_config *c, serve_problem *p) {
    r->parallel_calls = true;
    if (!read_tools(r, p) || !read_choice(r, p)) return false;
    if (!serve_field_bool(r->json, "parallel_tool_calls", &r->parallel_calls, p)) return false;
    if (!r->tools || !c->dialect) return true;
    if (!c->dialect->takes_tools)
        return serve_refuse(p, 400, "tools", "unsupported",
                            "the model's chat template does not take 'tools': it would not tell the model of "
                            "them; --chat FILE "
                            "gives another template");
    return r->tool_choice != SERVE_TOOLS_REQUIRED || c->dialect->calls ||
           serve_refuse(p, 400, "tool_choice", "unsupported",
                        "how this model writes calls is not known, so none can be required; the server is "
                        "told by --tool-parser");
}

/* ---------------------------------------------------------------- calls of earlier turns */

/* What the texts of all messages will take once they are parsed is bounded as the body is: in it they are strings, whatever they hold. */
static bool check_arguments(serve_request *r, const json_t *calls, size_t message, serve_problem *p) {
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *text = json_object_get(json_object_get(json_array_get(calls, i), "function"), "arguments");
        if (json_is_string(text)) r->n_call_trees += serve_json_tree_bytes(json_string_value(text), json_string_length(text));
    }
    return r->n_call_trees <= SERVE_MAX_TREE_BYTES ||
           serve_refuse(p, 413, "messages", "request_too_large",
                        "'messages[%zu].tool_calls': the arguments have too many values: in memory they and those before would take %zu MiB, and "
                        "%zu are allowed",
                        message, r->n_call_trees >> 20, SERVE_MAX_TREE_BYTES >> 20);
}

bool serve_tools_read_calls(serve_request *r, json_t *fields, size_t message, serve_problem *p) {
    json_t *had = json_object_get(fields, "tool_calls");
    if (!had) return true;
    if (!json_is_array(had))
        return serve_refuse(p, 400, "messages", NULL, "'messages[%zu].tool_calls' must be a list", message);
    if (!check_arguments(r, had, message, p)) return false;
    json_t *calls = json_deep_copy(had);
    if (!calls || json_object_set_new(fields, "tool_calls", calls) != 0)
        return serve_refuse(p, 503, NULL, "out_of_memory", "no memory for the request");
    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_t *function = json_object_get(json_array_get(calls, i), "function");
        const json_t *arguments = json_object_get(function, "arguments");
        if (!json_is_object(function))
            return serve_refuse(p, 400, "messages", NULL,
                                "'messages[%zu].tool_calls[%zu].function' must be an object", message, i);
        if (!json_is_string(arguments)) continue;
        size_t n = json_string_length(arguments);
        json_t *read = n ? json_loadb(json_string_value(arguments), n, JSON_DECODE_ANY, NULL) : json_object();
        if (!read)
            return serve_refuse(p, 400, "messages", NULL,
                                "'messages[%zu].tool_calls[%zu].function.arguments' is not JSON", message, i);
        json_object_set_new(function, "arguments", read);
    }
    return true;
}
