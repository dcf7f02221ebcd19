/* json_size.h - what a JSON text takes in memory once it is parsed, told before it is. */
#ifndef SERVE_JSON_SIZE_H
#define SERVE_JSON_SIZE_H

#include <stddef.h>

/* Of one request, beside its strings: 100,000 parts of messages. Two bytes of text, "{}", become a few hundred. */
#define SERVE_MAX_TREE_BYTES ((size_t)64 << 20)

/* Bytes of jansson's tree beside those of its strings, about and never much too few; also of a text that is no JSON, for
 * as far as it would be read. One pass, no memory. */
size_t serve_json_tree_bytes(const char *text, size_t n_bytes);

#endif
