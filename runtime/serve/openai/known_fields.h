/* known_fields.h - the fields that a request may have: honoured, without effect here, taken with the value that asks for
 * nothing, or refused. None is dropped in silence. docs/server.md has the table. */
#ifndef SERVE_KNOWN_FIELDS_H
#define SERVE_KNOWN_FIELDS_H

#include "problem.h"

#include <jansson.h>

/* False: *p names the first field that is not taken. `lenient`: one that is not known is named in *warnings instead (a list
 * of texts that the caller owns; NULL while there are none). What is known and not done is refused all the same. */
bool serve_known_fields_check(const json_t *body, bool is_chat, bool lenient, json_t **warnings,
                              serve_problem *p);

/* The same of a route that takes those of `known` alone, which ends with NULL. */
bool serve_known_fields_of(const json_t *body, const char *const *known, bool lenient, json_t **warnings, serve_problem *p);

#endif
