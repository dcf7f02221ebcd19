/* trace.h - how much two conversations begin alike: by which the scheduler finds the slot whose session has the
 * most of a new request's rows. A guess; the session itself checks what it may keep.
 *
 * sac_session_n_reusable knows it exactly, but would have to be asked of every idle slot on the one thread that runs
 * the model, and each time it measures the request's media: it hashes all their pixels (400 MB for 64 frames of 1080p)
 * and decodes pictures that it has not met. A hash of what the preparers have hashed already takes microseconds. */
#ifndef SERVE_TRACE_H
#define SERVE_TRACE_H

#include "request.h"

/* What a conversation is made of, part by part, to see how much of it a slot already holds. */
typedef struct serve_trace {
    uint64_t *hash; /* [n] each with all before it */
    double *weight; /* [n] about how many tokens */
    size_t n;
} serve_trace;

/* False without memory; the trace is then empty. */
bool serve_trace_make(serve_trace *t, const serve_request *r);
void serve_trace_free(serve_trace *t);
/* About how many tokens two conversations share. */
double serve_trace_shared(const serve_trace *a, const serve_trace *b);

#endif
