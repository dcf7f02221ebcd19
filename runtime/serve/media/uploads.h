/* uploads.h - files that clients have uploaded, kept in a folder as ID (the bytes) and ID.json (name, size,
 * time). All calls are from any thread. */
#ifndef SERVE_UPLOADS_H
#define SERVE_UPLOADS_H

#include "problem.h"
#include "serve_config.h"
#include "uploads_index.h"

#include <jansson.h>
#include <stddef.h>

typedef struct serve_uploads serve_uploads;

/* The folder of the configuration; it is made unless it is there. What an earlier server left in it counts. */
sac_status serve_uploads_open(serve_uploads **out, const serve_config *c, sac_error *err);
void serve_uploads_close(serve_uploads *u); /* NULL is fine, here and below where it says so */

/* Does the text look like an id that this server gives? */
bool serve_uploads_is_id(const char *id);

/* Opens an upload by id for reading, or -1. u may be NULL. */
int serve_uploads_descriptor(const serve_uploads *u, const char *id);

/* A file without a name in the folder, for bytes that are coming; -1 and errno. */
int serve_uploads_begin(const serve_uploads *u);

/* What an upload takes of the room beside its bytes: its description, on the disk and in memory. */
#define SERVE_UPLOAD_ENTRY_BYTES ((size_t)4096)

/* Takes n bytes of the room for all uploads; false when there is not so much left. */
bool serve_uploads_take_room(serve_uploads *u, size_t n);
void serve_uploads_return_room(serve_uploads *u, size_t n);

/* Gives the file a name, and returns its description, which is the caller's; the room that was taken for it is
 * then the file's (n_bytes and its entry's). NULL: *p says why. */
json_t *serve_uploads_keep(serve_uploads *u, int fd, size_t n_bytes, const char *name, const char *purpose,
                           serve_problem *p);

/* The description of one (NULL = there is none), and a page of the list (NULL: there is none, see uploads_index.h); the
 * caller's. u may be NULL for the list. */
json_t *serve_uploads_describe(const serve_uploads *u, const char *id);
json_t *serve_uploads_list(serve_uploads *u, const serve_uploads_page *page);

/* False when there is no such file. u may be NULL. */
bool serve_uploads_delete(serve_uploads *u, const char *id);

/* Why an upload could not be written, from errno: 507 for a full disk, otherwise 500. Returns false. */
bool serve_uploads_refuse(serve_problem *p, int error);

#endif
