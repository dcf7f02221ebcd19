/* listed_ids.h - the token ids of a long prompt, read without a tree: 131,072 of them as JSON values take 20 ms, and a second question
 * about what is held should take less than that in all. */
#ifndef SERVE_LISTED_IDS_H
#define SERVE_LISTED_IDS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

typedef struct serve_listed_ids {
    int32_t *ids; /* [n], owned; NULL: there is no such list */
    size_t n;
    size_t first, end; /* bytes of the body between its brackets */
} serve_listed_ids;

/* Bytes of a list from which on it is worth it. */
enum { SERVE_LISTED_LEAST = 8 << 10 };

/* The list under a body's own key "prompt", where it is one of whole numbers from 0 to INT32_MAX and has `least` bytes. Anything else, and
 * what is not JSON up to there, is left to the parser. The ids are all the memory that it takes, at most 12 bytes for each while it reads. */
serve_listed_ids serve_find_listed_ids(const char *body, size_t n_bytes, size_t least);

/* The tree of the body with nothing between the brackets of a list that was found, without a copy of it; NULL: that is no JSON, or there is
 * no memory. U+0000 may be in its strings. */
json_t *serve_parse_around(const char *body, size_t n_bytes, const serve_listed_ids *l);

#endif
