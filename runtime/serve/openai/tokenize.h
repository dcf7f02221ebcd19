/* tokenize.h - /tokenize and /detokenize, as vLLM has them (and llama.cpp, whose "content" is vLLM's "prompt"), and
 * Anthropic's /v1/messages/count_tokens. */
#ifndef SERVE_TOKENIZE_H
#define SERVE_TOKENIZE_H

#include "job.h"
#include "request.h"

/* The reply to a body, to be freed; NULL: *p says why. n_ctx: of a slot, which the reply tells. */
char *serve_tokenize(const sac_model *m, const serve_config *c, int64_t n_ctx, serve_task task,
                     const char *body, size_t n_bytes, serve_problem *p);

#endif
