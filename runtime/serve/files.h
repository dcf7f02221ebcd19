/* files.h - /v1/files: uploads, kept in a folder as ID (the bytes) and ID.json (name, size, time). */
#ifndef SERVE_FILES_H
#define SERVE_FILES_H

#include "front.h"

sac_status serve_files_open(serve_files **out, serve_server *s, sac_error *err);
void serve_files_close(serve_files *f);

/* A multipart upload: begun when its headers came, fed as it comes, finished by the route's run. The bytes go
 * straight to a file without a name, which gets one when all has come. */
bool serve_files_begin(serve_server *s, struct MHD_Connection *connection, serve_upload **out,
                       serve_problem *p);
bool serve_files_receive(serve_upload *u, const char *data, size_t n, serve_problem *p);
void serve_files_abandon(serve_upload *u); /* NULL is fine */

enum MHD_Result serve_files_finish(serve_exchange *x);
enum MHD_Result serve_files_list(serve_exchange *x);
enum MHD_Result serve_files_get(serve_exchange *x);
enum MHD_Result serve_files_delete(serve_exchange *x);

/* Opens an upload by id for reading, or -1. */
int serve_files_descriptor(const serve_files *f, const char *id);

#endif
