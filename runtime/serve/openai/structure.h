/* structure.h - what an answer must look like: response_format, vLLM's structured_outputs and guided_*, llama.cpp's grammar and json_schema, and
 * a call that tool_choice requires. All become one grammar. */
#ifndef SERVE_STRUCTURE_H
#define SERVE_STRUCTURE_H

#include "request.h"

/* Fills r->grammar, after tools and messages are parsed. */
bool serve_structure_parse(serve_request *r, const serve_config *c, serve_problem *p);
void serve_structure_free(serve_request *r);

#endif
