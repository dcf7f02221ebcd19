/* files.h - /v1/files over HTTP: uploads as they come in, and the routes that list, give and delete them. */
#ifndef SERVE_FILES_H
#define SERVE_FILES_H

#include "exchange.h"

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

#endif
