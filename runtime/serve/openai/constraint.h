/* constraint.h - answers that must be JSON, or match a JSON schema: which tokens may come next. */
#ifndef SERVE_CONSTRAINT_H
#define SERVE_CONSTRAINT_H

#include "problem.h"
#include "tokens.h"

#include <jansson.h>

typedef struct serve_constraint serve_constraint;

/* schema NULL = any JSON object. NULL: *p says why (400 for what a schema may not have here). */
serve_constraint *serve_constraint_open(const serve_tokens *tokens, const json_t *schema, serve_problem *p);
/* Another answer begins. */
void serve_constraint_restart(serve_constraint *c);
void serve_constraint_free(serve_constraint *c); /* NULL is fine */

/* Sets the logits of tokens that may not come to -INFINITY. */
void serve_constraint_mask(serve_constraint *c, float *logits, int n_vocab);
/* A token came. */
void serve_constraint_take(serve_constraint *c, int32_t id);

#endif
