/* schema_parts.h - what the files of the schema compiler share. */
#ifndef SERVE_SCHEMA_PARTS_H
#define SERVE_SCHEMA_PARTS_H

#include "schema.h"

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

typedef struct schema_target {
    const json_t *text;
    int node;
} schema_target;

typedef struct schema_reader {
    grammar *g;
    const json_t *root;
    const char *param;
    serve_problem *problem;
    json_t *made; /* a list of the schemas that were merged, which nodes' targets point to */
    schema_target *targets;
    size_t n_targets, targets_room;
    int any; /* the node of any value */
} schema_reader;

/* schema_keywords.c */
bool schema_refuse(const schema_reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool schema_check_keywords(const schema_reader *r, const json_t *text);
bool schema_is_deciding(const char *key); /* narrows what matches by itself; no $ref, anyOf, oneOf, allOf */
bool schema_read_types(const schema_reader *r, const json_t *text, unsigned *types);
unsigned schema_type_of_value(const json_t *value);
/* A bound from 0 to 1,000,000; *value stays where there is none. */
bool schema_read_bound(const schema_reader *r, const json_t *text, const char *key, int64_t *value);

/* schema_merge.c: what matches both, as one schema, which r->made owns; NULL: refused. */
const json_t *schema_merge(schema_reader *r, const json_t *a, const json_t *b);
/* What a text without $ref says, following them; NULL: refused. */
const json_t *schema_follow(const schema_reader *r, const json_t *text);

/* schema_apart.c: whether no value that is written for one of them matches the other. */
bool schema_apart(const schema_reader *r, const json_t *a, const json_t *b);

/* schema_values.c: nodes of strings, numbers and lists of values; -1: refused. */
int schema_string(const schema_reader *r, const json_t *text);
int schema_number(const schema_reader *r, const json_t *text, bool whole);
int schema_choices(const schema_reader *r, const json_t *text, unsigned types);

/* schema_format.c: the pattern of strings of a format; NULL: it is not known. */
const char *schema_format_pattern(const char *format);

#endif
