/* uploads_index.h - the descriptions of all uploads in memory, in order of their age: a list of many thousands takes no file to
 * be opened. The callers hold a lock of their own. */
#ifndef SERVE_UPLOADS_INDEX_H
#define SERVE_UPLOADS_INDEX_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed = empty. */
typedef struct serve_uploads_index {
    json_t **items; /* [n] descriptions, the oldest first; of one second by id */
    size_t n, capacity;
} serve_uploads_index;

/* Which part of the list: OpenAI's `limit`, `after`, `order` and `purpose`. */
typedef struct serve_uploads_page {
    const char *after, *purpose; /* an id; NULL = all */
    size_t limit;
    bool oldest_first;
} serve_uploads_page;

bool serve_uploads_index_add(serve_uploads_index *x,
                             json_t *description); /* keeps a reference; false without memory */
void serve_uploads_index_remove(serve_uploads_index *x, const char *id);
void serve_uploads_index_free(serve_uploads_index *x);

/* {"object": "list", "data", "first_id", "last_id", "has_more"}, the caller's; NULL: `after` is no upload, or no memory. */
json_t *serve_uploads_index_list(const serve_uploads_index *x, const serve_uploads_page *page);

#endif
