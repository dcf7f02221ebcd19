#include "conversation.h"
#include "fields.h"

#include <stdlib.h>
#include <string.h>

static bool no_memory(serve_problem *p) {
    return serve_refuse(p, 503, NULL, "out_of_memory", "no memory for the request");
}

static bool dump(const json_t *v, const char **text, serve_problem *p) {
    *text = json_dumps(v, JSON_COMPACT);
    return *text || no_memory(p);
}

/* An array of objects, as a text; an empty one is none, as transformers' callers leave it out. */
static bool take_list(const serve_request *r, const char *key, const char **text, serve_problem *p) {
    const json_t *list = json_object_get(r->json, key);
    if (!list || json_is_null(list)) return true;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_object(json_array_get(list, i))) list = NULL;
    if (!json_is_array(list)) return serve_refuse(p, 400, key, NULL, "'%s' must be a list of objects", key);
    return json_array_size(list) == 0 || dump(list, text, p);
}

/* The server's variables, with the request's over them. */
static bool take_variables(serve_request *r, const serve_config *c, serve_problem *p) {
    const json_t *own = NULL;
    if (!serve_field_object(r->json, "chat_template_kwargs", &own, p)) return false;
    if (!c->chat.variables && json_object_size(own) == 0) return true;
    json_t *all = c->chat.variables ? json_loads(c->chat.variables, 0, NULL) : json_object();
    bool ok = all && (!own || json_object_update(all, (json_t *)(uintptr_t)own) == 0);
    ok = ok ? dump(all, &r->chat.variables, p) : no_memory(p);
    json_decref(all);
    return ok;
}

/* What would change the answer and is not done here. */
static bool check_others(const serve_request *r, serve_problem *p) {
    static const char *const refused[] = {"chat_template", "functions", "function_call"};
    const json_t *choice = json_object_get(r->json, "tool_choice");
    const char *name = json_string_value(choice);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const json_t *v = json_object_get(r->json, refused[i]);
        if (v && !json_is_null(v))
            return serve_refuse(p, 400, refused[i], "unsupported", "'%s' is not taken: %s", refused[i],
                                i == 0 ? "the server is started with --chat FILE" : "give 'tools'");
    }
    if (!choice || json_is_null(choice) || (name && (!strcmp(name, "auto") || !strcmp(name, "none"))))
        return true;
    return serve_refuse(
        p, 400, "tool_choice", "unsupported",
        "'tool_choice' is taken as 'auto' and 'none' only: which tool is called is the model's choice");
}

bool serve_conversation_parse(serve_request *r, const serve_config *c, serve_problem *p) {
    bool generation = true, given = json_is_boolean(json_object_get(r->json, "add_generation_prompt"));
    const json_t *own = json_object_get(r->json, "saccade");
    r->chat.parse_special = c->chat.parse_special;
    r->chat.keep_video_marks = c->chat.keep_video_marks;
    if (!serve_field_bool(r->json, "continue_final_message", &r->chat.continue_final_message, p))
        return false;
    if (!given) generation = !r->chat.continue_final_message;
    if (!serve_field_bool(r->json, "add_generation_prompt", &generation, p)) return false;
    if (generation && r->chat.continue_final_message)
        return serve_refuse(p, 400, "continue_final_message", NULL,
                            "'continue_final_message' and 'add_generation_prompt' cannot both be true");
    r->chat.no_generation_prompt = !generation;
    if (own && !serve_field_bool(own, "parse_special", &r->chat.parse_special, p)) return false;
    return check_others(r, p) && take_list(r, "tools", &r->chat.tools, p) &&
           take_list(r, "documents", &r->chat.documents, p) && take_variables(r, c, p);
}

void serve_conversation_free(serve_request *r) {
    free((char *)r->chat.tools);
    free((char *)r->chat.documents);
    free((char *)r->chat.variables);
    for (size_t i = 0; i < r->n_messages; i++) free((char *)r->messages[i].fields);
}

bool serve_message_fields(const json_t *message, char **fields, serve_problem *p) {
    json_t *rest = NULL;
    const char *key;
    json_t *value;
    bool ok = true;
    json_object_foreach((json_t *)(uintptr_t)message, key, value) {
        if (!strcmp(key, "role") || !strcmp(key, "content") || json_is_null(value)) continue;
        if (!rest) rest = json_object();
        ok = ok && rest && json_object_set(rest, key, value) == 0;
    }
    const char *text = NULL;
    ok = ok ? !rest || dump(rest, &text, p) : no_memory(p);
    json_decref(rest);
    *fields = (char *)text;
    return ok;
}
