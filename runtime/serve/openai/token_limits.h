/* token_limits.h - which tokens of the vocabulary a request pushes up or down, and which alone it allows. */
#ifndef SERVE_TOKEN_LIMITS_H
#define SERVE_TOKEN_LIMITS_H

#include "request.h"

/* Fills r's logit_bias and allowed, both of ids below n_vocab. */
bool serve_limits_parse(serve_request *r, int n_vocab, serve_problem *p);
void serve_limits_free(serve_request *r);

/* Clears the bits of tokens that are not allowed (sac_events.mask). */
void serve_limits_mask(const serve_request *r, uint32_t *bits, int n_vocab);

#endif
