/* text_length.h - whether a request's texts can fit a context. Finding tokens takes about a second for a MiB: of long texts it is done
 * where nobody waits for it, so that the model's thread comes to no text with more tokens than a context has. */
#ifndef SERVE_TEXT_LENGTH_H
#define SERVE_TEXT_LENGTH_H

#include "request.h"
#include "tokens.h"

#include <stdatomic.h>

/* Longer ones are looked at by the threads that decode media. */
enum { SERVE_LONG_TEXT = 1 << 18 };

/* Bytes of all that is to become tokens: prompts, or messages with their fields, tools, documents and template variables. */
size_t serve_text_bytes(const serve_request *r);

/* False (400): prompts or parts of messages have more bytes than n_ctx of the longest tokens. By arithmetic alone: what a template may leave
 * out is not counted. */
bool serve_text_may_fit(const serve_request *r, const serve_tokens *t, int64_t n_ctx, serve_problem *p);

/* False (400): a prompt has more tokens than n_ctx, or its template fails. By finding the tokens of texts that have more than n_ctx bytes,
 * unless the text as the template writes it has too many bytes. Between two texts it ends early, with true, when nobody waits any more; within
 * one it does not. Media must be there. */
bool serve_text_fits(const serve_request *r, const sac_model *m, const serve_tokens *t, int64_t n_ctx, const atomic_bool *cancelled, serve_problem *p);

#endif
