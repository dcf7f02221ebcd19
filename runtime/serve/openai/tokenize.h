/* tokenize.h - /tokenize and /detokenize, as vLLM has them (and llama.cpp, whose "content" is vLLM's "prompt"), and
 * Anthropic's /v1/messages/count_tokens. */
#ifndef SERVE_TOKENIZE_H
#define SERVE_TOKENIZE_H

#include "job.h"
#include "request.h"

/* False (413): a body of so many bytes has more text than tokens are told of. Before it is parsed. */
bool serve_tokenize_takes(size_t n_bytes, serve_problem *p);

/* The reply to a body, to be freed; NULL: *p says why. n_ctx: of a slot, which the reply tells. */
char *serve_tokenize(const sac_model *m, const serve_config *c, int64_t n_ctx, serve_task task,
                     const char *body, size_t n_bytes, serve_problem *p);

#endif
