/* media_source.h - from a URL to bytes: data URIs, uploads, files below the media root, and http(s) where allowed.
 * All end as a descriptor that can be read from its start. */
#ifndef SERVE_MEDIA_SOURCE_H
#define SERVE_MEDIA_SOURCE_H

#include "problem.h"
#include "state.h"

#include <stddef.h>
#include <stdint.h>

typedef struct serve_source {
    int fd;
    size_t n_bytes;
    uint8_t hash[32]; /* SHA-256 of the bytes */
    serve_server *fetched_for; /* counts it among the fetched files; NULL = it is none */
} serve_source;

/* until_comma: the URL is one of vLLM's list of frames, base64 up to the next comma. cancelled may be NULL.
 * False: *p says why, nothing is open. */
bool serve_source_open(serve_source *out, serve_server *s, const char *url, bool until_comma,
                       const char *param, const atomic_bool *cancelled, serve_problem *p);
void serve_source_close(serve_source *source);

#endif
