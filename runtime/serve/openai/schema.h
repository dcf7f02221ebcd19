/* schema.h - a JSON schema as a table of nodes for the automaton of constraint.c.
 *
 * Taken: $ref (to "#", "#/$defs/NAME" and "#/definitions/NAME"), anyOf and oneOf whose alternatives differ in how their texts
 * begin (a model or null, a list or a string), allOf of one, type (one or several), properties, required, additionalProperties, items, enum, const, minItems,
 * maxItems, minLength, maxLength, and what only describes (title, description, default, examples, $schema,
 * $id, $comment). Any other keyword is refused: an answer that ignored it would not match. */
#ifndef SERVE_SCHEMA_H
#define SERVE_SCHEMA_H

#include "problem.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum { SCHEMA_MAX_NODES = 1024, SCHEMA_MAX_CHOICES = 64, SCHEMA_MAX_DEPTH = 30, SCHEMA_MAX_ALTERNATIVES = 8 };

enum {
    SCHEMA_OBJECT = 1,
    SCHEMA_ARRAY = 2,
    SCHEMA_STRING = 4,
    SCHEMA_NUMBER = 8,
    SCHEMA_INTEGER = 16,
    SCHEMA_BOOLEAN = 32,
    SCHEMA_NULL = 64,
    SCHEMA_ANY = 127 - SCHEMA_INTEGER
};

typedef struct schema_property {
    char *key; /* as JSON writes it, without quotes */
    size_t n;
    int node;
} schema_property;

typedef struct schema_node {
    const json_t *text; /* while it is compiled: what it was made of; borrowed */
    int alternatives
        [SCHEMA_MAX_ALTERNATIVES]; /* nodes in place of this one; the value's first byte tells which */
    int n_alternatives;
    int depth; /* of the flattest value that matches, this one counted */
    unsigned types;
    char **choices; /* of enum and const, as JSON texts; NULL = none */
    size_t n_choices;
    schema_property *properties; /* at most SCHEMA_MAX_CHOICES */
    size_t n_properties;
    uint64_t required; /* bits of properties */
    int other;         /* node of properties that are not named, -1 = there may be none */
    int items;
    int64_t min_items, max_items, min_length, max_length; /* max -1 = none */
} schema_node;

typedef struct schema {
    const json_t *text; /* borrowed while it is compiled */
    schema_node *nodes; /* the root is 1; 0 is "anything" */
    int n, room;
} schema;

bool schema_compile(schema *s, const json_t *text, serve_problem *p); /* text NULL = any object */
void schema_free(schema *s);

/* May a value of this node begin with the byte, when it may be so deep? Of one with alternatives: *node becomes the one that
 * may. */
bool schema_begins(const schema *s, int *node, int max_depth, unsigned char byte);

#endif
