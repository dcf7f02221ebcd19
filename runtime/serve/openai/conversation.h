/* conversation.h - what a chat request tells the model's chat template besides roles and content: tools, documents,
 * variables, and further fields of messages such as tool_calls. */
#ifndef SERVE_CONVERSATION_H
#define SERVE_CONVERSATION_H

#include "request.h"

/* Fills r->chat. */
bool serve_conversation_parse(serve_request *r, const serve_config *c, serve_problem *p);
void serve_conversation_free(serve_request *r);

/* All fields of the index-th message but its role and content, as the text of an object in *fields: free() it; NULL = none. */
bool serve_message_fields(serve_request *r, const json_t *message, size_t index, char **fields, serve_problem *p);

#endif
