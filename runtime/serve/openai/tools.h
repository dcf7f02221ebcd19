/* tools.h - which tools a chat request lets the model call, and whether it must. */
#ifndef SERVE_TOOLS_H
#define SERVE_TOOLS_H

#include "request.h"

enum { SERVE_MAX_TOOLS = 128 };

/* Fills r->tools, tool_choice, tool_name and parallel_calls. */
bool serve_tools_parse(serve_request *r, const serve_config *c, serve_problem *p);

/* The name of the i-th tool, and what its arguments are to match (NULL = anything). */
const char *serve_tool_name(const serve_request *r, size_t i);
const json_t *serve_tool_parameters(const serve_request *r, size_t i);
/* Whether the request has a tool of that name. */
bool serve_tools_know(const void *request, const char *name);

/* "arguments" of a message's tool_calls as templates take them: objects, where they are the texts of some. What is changed is copied: *fields is a
 * message's, owned by the caller. r->n_call_trees counts what all of the request's take. */
bool serve_tools_read_calls(serve_request *r, json_t *fields, size_t message, serve_problem *p);

#endif
