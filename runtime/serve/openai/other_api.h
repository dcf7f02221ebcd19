/* other_api.h - requests of other APIs than OpenAI's completions, read into a chat's: what they name otherwise, and what they
 * order otherwise. One file an API: read_responses.c, read_messages.c, read_embeddings.c, read_score.c. What both write alike goes over as
 * it is, and is checked as a chat's. */
#ifndef SERVE_OTHER_API_H
#define SERVE_OTHER_API_H

#include "problem.h"

#include <jansson.h>
#include <stddef.h>

/* A request on its way. */
typedef struct other_request {
    json_t *chat;     /* owned until it is handed on */
    json_t *messages; /* of it */
    json_t *said;     /* what the answer repeats of the request; owned likewise */
    serve_problem *p;
} other_request;

/* Reads one field; false: *o->p says why not. */
typedef bool other_field_fn(other_request *o, const json_t *value);

typedef struct other_field {
    const char *name;
    other_field_fn *read; /* NULL: it is refused, with what to give `instead` */
    const char *instead;
} other_field;

/* Of an API with these fields (the last has no name): *body, a request, becomes a chat's; *said what the answer repeats.
 * False: *p says why; *body is then as it was. */
typedef bool other_check_fn(other_request *o, const json_t *body);
bool serve_other_read(json_t **body, json_t **said, const other_field *fields, other_check_fn *finish,
                      serve_problem *p);

/* The APIs. */
bool serve_read_responses(json_t **body, json_t **said, serve_problem *p);
bool serve_read_embeddings(json_t **body, json_t **said, serve_problem *p);
bool serve_read_messages(json_t **body, json_t **said, serve_problem *p);
bool serve_read_score(json_t **body, json_t **said, serve_problem *p);
bool serve_read_rerank(json_t **body, json_t **said, serve_problem *p);

/* ---- for their files */

bool serve_other_no_memory(serve_problem *p);
/* Of a request whose prompts alone are run: it has no field but those that a prompt depends on, or nothing does. `of`: what is made of
 * them. */
bool serve_other_check_prompt_fields(const other_request *o, const char *of);
/* Sets a field of an object; value goes over, and may be NULL: no memory. */
bool serve_other_set(json_t *object, const char *key, json_t *value, serve_problem *p);
/* {"type": "text", "text": T}, T being part's "text"; NULL: *p says why. */
json_t *serve_other_text(const json_t *part, const char *param, serve_problem *p);
/* {"type": KIND, KIND: {"url": U}}; NULL: no memory. */
json_t *serve_other_media(const char *kind, const char *url, serve_problem *p);
/* Another message of {"role", "content"}; content goes over. NULL: no memory, and *p says so. */
json_t *serve_other_message(other_request *o, const char *role, json_t *content);
/* A call of {"id", "name", "arguments" (a text or an object)} that the model made: into its last message, or a new one. arguments
 * goes over. */
bool serve_other_call(other_request *o, const char *id, const char *name, json_t *arguments);
/* What the model thought before its next message. */
bool serve_other_reasoning(other_request *o, const char *text);

#endif
