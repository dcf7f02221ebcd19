/* caption_seen.h - what an item was known by when it was done (CAPTION_SEEN_KEY of its record), by which a later run tells
 * whether it is still the same.
 *
 * "HASH" of id, size and line; for a file of its own "HASH.MTIME.CONTENT" besides: one that was touched or copied has
 * another time and the same content. */
#ifndef APP_CAPTION_SEEN_H
#define APP_CAPTION_SEEN_H

#include "caption_input.h"

#include <sys/stat.h>

#define CAPTION_SEEN_KEY   "seen"
#define CAPTION_SEEN_BYTES 60

/* Hash of a file's size and bytes: all of them up to 2 MiB, of a longer file the first and the last MiB. 0 = it cannot
 * be read. */
uint64_t caption_content_hash(const char *path);

/* Of a file that is there: never 0, which in an item says that it is no file of its own. */
int64_t caption_mtime_ns(const struct stat *info);

/* content: of caption_content_hash when the item was read, 0 = not known. */
void caption_seen_text(const caption_item *item, uint64_t content, char text[CAPTION_SEEN_BYTES]);

/* record: a line of a journal. Reads the file where its time alone does not tell. */
bool caption_looks_the_same(const caption_source *s, const caption_item *item, const json_t *record);

#endif
