/* trace.h - how a conversation begins, and about how long it is: by which the scheduler finds the slot whose session
 * has the most of a new request's rows, and sees what is left to run. A guess; the session itself checks what it may
 * keep.
 *
 * sac_session_n_reusable knows it exactly, but would have to be asked of every idle slot on the one thread that runs
 * the model, and each time it measures the request's media: it hashes all their pixels (400 MB for 64 frames of 1080p)
 * and decodes pictures that it has not met. A hash of what the preparers have hashed already takes microseconds, and
 * they make it. */
#ifndef SERVE_TRACE_H
#define SERVE_TRACE_H

#include "request.h"

/* What a conversation is made of, part by part. */
typedef struct serve_trace {
    uint64_t *hash;  /* [n] each with all before it */
    double *weight;  /* [n] about how many tokens */
    double n_tokens; /* about, of all */
    size_t n;
} serve_trace;

/* Of a request whose media are there; NULL without memory. Whoever makes it frees it. */
serve_trace *serve_trace_open(const serve_request *r, const sac_model *model);
void serve_trace_free(serve_trace *t); /* NULL is fine */

/* About how many tokens two conversations share; none where one is NULL. */
double serve_trace_shared(const serve_trace *a, const serve_trace *b);

#endif
