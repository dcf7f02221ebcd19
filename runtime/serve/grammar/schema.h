/* schema.h - a JSON schema (drafts 7 and 2020-12, as pydantic and OpenAI's strict mode write them) as nodes of a grammar.
 *
 * Taken: type (one or several), properties, required, additionalProperties, propertyNames of an enum, items, prefixItems, enum, const,
 * minItems, maxItems, minLength, maxLength, pattern, format (schema_format.c's), minimum, maximum, exclusiveMinimum, exclusiveMaximum, nullable,
 * $ref within the schema, anyOf, oneOf whose alternatives cannot both match, allOf, these beside each other, and
 * what only describes. Any other keyword is refused: an answer that ignored it would not match.
 *
 * Unnamed properties are allowed by JSON schema unless refused; where some are named we allow those alone: such answers
 * match all the same, and end. */
#ifndef SERVE_SCHEMA_H
#define SERVE_SCHEMA_H

#include "grammar.h"

#include <jansson.h>

enum { SCHEMA_MAX_DEPTH = 30 };

/* The node of any JSON object, and of a schema's values. -1: *p says why (400 for what a schema may not have; param is the field of the
 * request), or, where p->status is 0, g does: grammar_finish then. */
int schema_any_object(grammar *g);
int schema_compile(grammar *g, const json_t *text, const char *param, serve_problem *p);

#endif
