/* methods.h - attention methods that a request chooses, where the server lets it. */
#ifndef SERVE_METHODS_H
#define SERVE_METHODS_H

#include "problem.h"
#include "serve_config.h"

#include <jansson.h>

/* Lines as in sac_session_config; empty = the server's. */
typedef struct serve_methods {
    char prefill[400], decode[400], kv[400], rope[100], reduce[100];
} serve_methods;

/* Reads {"prefill": "...", ...} of a request's "saccade" object. */
bool serve_methods_parse(serve_methods *m, const serve_config *c, const json_t *own, serve_problem *p);

bool serve_methods_equal(const serve_methods *a, const serve_methods *b);

#endif
