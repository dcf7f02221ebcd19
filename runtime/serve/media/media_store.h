/* media_store.h - pictures and videos, decoded and prepared for the model, shared by requests that name the same bytes, and kept for later ones
 * while there is room. */
#ifndef SERVE_MEDIA_STORE_H
#define SERVE_MEDIA_STORE_H

#include "state.h"

sac_status serve_media_store_open(serve_media_store **out, serve_server *s, sac_error *err);
void serve_media_store_close(serve_media_store *store);
size_t serve_media_store_bytes(serve_media_store *store);

/* Gets, decodes and prepares everything that the request names and fills its parts. False: *p says why. */
bool serve_media_get(serve_job *j, serve_problem *p);

/* Lets go of what a request holds. */
void serve_media_release(serve_request *r, serve_media_store *store);

#endif
