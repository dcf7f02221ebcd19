/* grammar.h - what an answer may be, as a table of nodes that a byte-level pushdown machine (machine.h) reads. JSON schemas
 * (schema.h), regular expressions (regex.h), GBNF (gbnf.h), lists of choices and the envelopes of tool calls all become one.
 *
 * Sequences, alternatives and repeats are those of any context-free grammar. Objects, arrays, strings and numbers of JSON are
 * nodes of their own: an object's properties come in any order, which rules alone would need a rule for each order for.
 *
 * Every limit is checked before anything runs: left recursion, parts that cannot end, and nodes that many paths lead to
 * are refused by grammar_finish. */
#ifndef SERVE_GRAMMAR_H
#define SERVE_GRAMMAR_H

#include "problem.h"

#include <stddef.h>
#include <stdint.h>

enum {
    GRAMMAR_MAX_NODES = 16384,
    GRAMMAR_MAX_ITEMS = 65536,  /* of all nodes together */
    GRAMMAR_MAX_TEXT = 1 << 20, /* bytes of all literals together */
    GRAMMAR_MAX_PATHS = 16384,  /* ways to begin a node, counted without looking at the byte */
    GRAMMAR_MAX_LEFT = 256,     /* nodes that begin with each other */
    GRAMMAR_MAX_CHOICES = 16384,
    GRAMMAR_MAX_PROPERTIES = 64, /* of one object: they are bits */
    GRAMMAR_JSON_DEPTH = 32,     /* objects and arrays within each other */
    GRAMMAR_RULES_DEPTH = 512,   /* rules within each other, GBNF and regular expressions */
};

typedef enum grammar_kind {
    GRAMMAR_ALT,    /* one of items; one alone is a reference */
    GRAMMAR_SEQ,    /* items, one after the other */
    GRAMMAR_REPEAT, /* items[0], min to max times */
    GRAMMAR_BYTES,  /* text */
    GRAMMAR_CLASS,  /* one character of the ranges */
    GRAMMAR_UNTIL,  /* anything up to text's first end, text too */
    GRAMMAR_CHOICE, /* one of texts, which are sorted */
    GRAMMAR_STRING, /* a JSON string of min to max characters */
    GRAMMAR_NUMBER, /* a JSON number; whole: an integer; bounded: within low and high */
    GRAMMAR_OBJECT, /* a JSON object */
    GRAMMAR_ARRAY,  /* a JSON array of min to max items: items[], then `other` */
} grammar_kind;

typedef struct grammar_text {
    const char *bytes; /* not ended by NUL; within the grammar */
    uint32_t n;
} grammar_text;

typedef struct grammar_range {
    uint32_t low, high; /* characters, both included; no surrogates */
} grammar_range;

typedef struct grammar_property {
    grammar_text key; /* as JSON writes it, without quotes */
    int node;
} grammar_property;

typedef struct grammar_node {
    uint8_t kind;
    bool nullable; /* matches the empty text */
    bool whole;    /* of a number: no fraction */
    bool bounded;  /* of a number: low and high count */
    bool in_json;  /* of a class: as it stands in a JSON string, escaped where it must be */
    int need;      /* frames that its flattest text takes; 0 = it may be left out */
    int n_items;
    int *items;       /* [n_items] nodes */
    int64_t min, max; /* times, characters, items; max -1 = no end */
    double low, high; /* of a number that is bounded, both included */
    grammar_text text;
    uint32_t *failure;   /* [text.n] of UNTIL: Knuth, Morris and Pratt's table */
    grammar_text *texts; /* [n_texts] */
    uint32_t n_texts;
    grammar_range *ranges; /* [n_ranges] ascending, apart */
    uint32_t n_ranges;
    grammar_property *properties; /* [n_properties] */
    int n_properties;
    uint64_t required; /* bits of properties */
    int other;         /* node of properties or items that are not named; -1 = there are none */
    uint64_t first[4]; /* bits of bytes that it may begin with */
} grammar_node;

typedef struct grammar {
    grammar_node *nodes;
    int n, room;
    int root;
    int max_depth;
    size_t n_items, n_text; /* in use of the limits */
    void **blocks;          /* what nodes point to */
    size_t n_blocks, blocks_room;
    bool no_memory, too_large;
} grammar;

void grammar_init(grammar *g, int max_depth);
void grammar_free(grammar *g); /* a zeroed one is fine */

/* Each gives the new node, or -1: then no_memory or too_large says why, and later calls fail as well; items of -1 are such a
 * failure passed on. What is pointed to is copied. */
int grammar_bytes(grammar *g, const char *text, size_t n);
int grammar_until(grammar *g, const char *text, size_t n); /* n > 0 */
int grammar_alt(grammar *g, const int *items, int n);
int grammar_seq(grammar *g, const int *items, int n);
int grammar_repeat(grammar *g, int item, int64_t min, int64_t max);
/* Ranges in any order, which may overlap; surrogates are left out. negated: all other characters. */
int grammar_class(grammar *g, const grammar_range *ranges, size_t n, bool negated, bool in_json);
int grammar_choice(grammar *g, const grammar_text *texts, size_t n);
int grammar_string(grammar *g, int64_t min, int64_t max);
int grammar_number(grammar *g, bool whole);
int grammar_number_between(grammar *g, bool whole, double low, double high);
int grammar_object(grammar *g);
int grammar_array(grammar *g, const int *items, int n, int other, int64_t min, int64_t max);

/* For a node whose parts are made after it: a reference to nothing yet; grammar_alt_set gives it its alternatives. */
int grammar_forward(grammar *g);
bool grammar_alt_set(grammar *g, int node, const int *items, int n);
/* Of an object. The key is a JSON string's inside. */
bool grammar_object_set(grammar *g, int node, const grammar_property *properties, int n, uint64_t required,
                        int other);

/* n bytes that live as long as the grammar; NULL without memory. */
void *grammar_take(grammar *g, size_t n);

/* Works out what the machine needs, and refuses what it could not read in bounded time. `what`: "the JSON schema";
 * param: the field of the request. False: *p says why. */
bool grammar_finish(grammar *g, int root, const char *what, const char *param, serve_problem *p);

#endif
