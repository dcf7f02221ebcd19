/* read_embeddings.c - a request of /v1/embeddings, OpenAI's of texts and vLLM's of a conversation (so that pictures have some), as one
 * whose prompts alone are run. */
#include "fields.h"
#include "other_api.h"

#include <string.h>

static bool repeat(other_request *o, const char *key, const json_t *value) {
    return json_object_set(o->chat, key, (json_t *)(uintptr_t)value) == 0 || serve_other_no_memory(o->p);
}

static bool read_format(other_request *o, const json_t *value) {
    const char *text = json_string_value(value);
    if (!text || (strcmp(text, "float") != 0 && strcmp(text, "base64") != 0))
        return serve_refuse(o->p, 400, "encoding_format", NULL,
                            "'encoding_format' must be 'float' or 'base64'");
    return serve_other_set(o->said, "base64", json_boolean(!strcmp(text, "base64")), o->p);
}

/* A template does not open the model's turn unless it is asked to, as in vLLM. */
static bool finish_embeddings(other_request *o, const json_t *body) {
    const json_t *given = json_object_get(body, "messages");
    const bool texts = json_object_get(o->chat, "prompt"), chat = given && !json_is_null(given);
    if (!serve_other_check_prompt_fields(o, "embeddings")) return false;
    if (texts == chat)
        return serve_refuse(o->p, 400, "input", NULL,
                            "either 'input', texts or token ids, or 'messages' must be given");
    if (texts) return true;
    json_array_clear(o->messages);
    if (json_array_extend(o->messages, (json_t *)(uintptr_t)given) != 0)
        return serve_refuse(o->p, 400, "messages", NULL, "'messages' must be a list of messages");
    return json_object_get(o->chat, "add_generation_prompt") ||
           serve_other_set(o->chat, "add_generation_prompt", json_false(), o->p);
}

static bool leave_messages(other_request *o, const json_t *value) {
    (void)o, (void)value;
    return true;
}

/* As a text completion's prompts, by which name it goes on. */
static bool repeat_input(other_request *o, const json_t *value) {
    return repeat(o, "prompt", value);
}

bool serve_read_embeddings(json_t **body, json_t **said, serve_problem *p) {
    static const other_field fields[] = {
        {"input", repeat_input, NULL},
        {"messages", leave_messages, NULL},
        {"encoding_format", read_format, NULL},
        {"dimensions", NULL, "embeddings are as wide as the model's hidden states"},
        {"prompt", NULL, "give 'input'"},
        {"stream", NULL, "embeddings come as a whole"},
        {"normalize", NULL, "embeddings always have the length 1"},
        {"truncate_prompt_tokens", NULL, "a prompt that does not fit is refused"},
        {NULL, NULL, NULL}};
    return serve_other_read(body, said, fields, finish_embeddings, p);
}
