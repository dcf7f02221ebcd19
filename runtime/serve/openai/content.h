/* content.h - the messages of a chat request: roles, texts, and references to media. */
#ifndef SERVE_CONTENT_H
#define SERVE_CONTENT_H

#include "request.h"

/* Fills r->messages, r->parts and r->media. */
bool serve_content_parse(serve_request *r, const serve_config *c, serve_problem *p);
void serve_content_free(serve_request *r);

#endif
