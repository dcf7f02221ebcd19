/* constraint.h - answers that must be of a grammar: which tokens may come next. */
#ifndef SERVE_CONSTRAINT_H
#define SERVE_CONSTRAINT_H

#include "grammar.h"
#include "tokens.h"

typedef struct serve_constraint serve_constraint;

/* Both must outlive it. NULL without memory. */
serve_constraint *serve_constraint_open(const serve_tokens *tokens, const grammar *g);
/* Another answer begins. */
void serve_constraint_restart(serve_constraint *c);
void serve_constraint_free(serve_constraint *c); /* NULL is fine */

/* Clears the bits of tokens that may not come (sac_events.mask). Where no token may come, which a vocabulary that lacks a
 * character can lead to, those that end an answer may. */
void serve_constraint_mask(serve_constraint *c, uint32_t *bits, int n_vocab);
/* A token came. */
void serve_constraint_take(serve_constraint *c, int32_t id);

#endif
