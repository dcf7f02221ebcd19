/* message.h - what an answer of a chat consists of, as it comes: text, reasoning, tool calls; as the message of a whole answer and as deltas of a
 * stream. */
#ifndef SERVE_MESSAGE_H
#define SERVE_MESSAGE_H

#include "byte_buffer.h"
#include "splitter.h"

#include <jansson.h>

typedef struct serve_message {
    serve_buffer text, reasoning, arguments; /* arguments: of the last call */
    json_t *calls;                           /* a list; NULL = none so far */
    size_t id_length;                        /* of calls, as call_format.h */
} serve_message;

/* Another call's id, NUL-terminated. */
void serve_message_call_id(const serve_message *m, char *id, size_t room);

/* A part came: kept for serve_message_json. */
void serve_message_add(serve_message *m, splitter_kind kind, const char *text, size_t n);
/* The delta that says so; of a call it is kept, too, for the index of what follows. */
json_t *serve_message_delta(serve_message *m, splitter_kind kind, const char *text, size_t n);
/* {"role", "content", ...} of all that was added. */
json_t *serve_message_json(serve_message *m);
void serve_message_clear(serve_message *m);

#endif
