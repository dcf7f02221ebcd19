/* content.h - the messages of a chat request: roles, texts, and references to media. */
#ifndef SERVE_CONTENT_H
#define SERVE_CONTENT_H

#include "request.h"

/* Fills r->messages, r->parts and r->media. */
bool serve_content_parse(serve_request *r, const serve_config *c, serve_problem *p);
/* Lets go of the media's URLs, which may be most of the request, once what they bring is there. Returns how many bytes. */
size_t serve_content_drop_urls(serve_request *r);
void serve_content_free(serve_request *r);

#endif
