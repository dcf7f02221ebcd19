#include "conversation.h"
#include "fields.h"
#include "tools.h"

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
    return serve_tools_parse(r, c, p) && take_list(r, "tools", &r->chat.tools, p) &&
           take_list(r, "documents", &r->chat.documents, p) && take_variables(r, c, p);
}

void serve_conversation_free(serve_request *r) {
    free((char *)r->chat.tools);
    free((char *)r->chat.documents);
    free((char *)r->chat.variables);
    for (size_t i = 0; i < r->n_messages; i++) free((char *)r->messages[i].fields);
}

bool serve_message_fields(serve_request *r, const json_t *message, size_t index, char **fields, serve_problem *p) {
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
    const json_t *reasoning =
        json_object_get(rest, "reasoning"); /* vLLM's new name of what templates know by the old one */
    if (reasoning && !json_object_get(rest, "reasoning_content"))
        ok = ok && json_object_set(rest, "reasoning_content", (json_t *)(uintptr_t)reasoning) == 0;
    ok = ok ? !rest || (serve_tools_read_calls(r, rest, index, p) && dump(rest, &text, p)) : no_memory(p);
    json_decref(rest);
    *fields = (char *)text;
    return ok;
}
