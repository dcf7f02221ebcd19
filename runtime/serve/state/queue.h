/* queue.h - jobs that wait. Taking is fair: who has waited longest since being served comes first, so that a
 * client with a hundred requests does not hold up one with a single request. */
#ifndef SERVE_QUEUE_H
#define SERVE_QUEUE_H

#include "job.h"

enum { SERVE_CLIENT_BUCKETS = 1024 };

typedef struct serve_queue {
    serve_job *first, *last; /* in order of arrival */
    size_t n;
    uint64_t ticket;
    uint64_t served[SERVE_CLIENT_BUCKETS]; /* ticket of a client's last job; clients may share a bucket */
} serve_queue;

/* The callers hold a lock of their own. */
void serve_queue_add(serve_queue *q, serve_job *j);
/* The one that is taken next, of those that `may` says may be (NULL: all); NULL when there is none. */
serve_job *serve_queue_next(const serve_queue *q, bool (*may)(serve_job *j, void *ctx), void *ctx);
/* Takes it out, and its client counts as served. */
void serve_queue_serve(serve_queue *q, serve_job *j);
/* Both; NULL when empty. */
serve_job *serve_queue_take(serve_queue *q);
bool serve_queue_remove(serve_queue *q, serve_job *j);

#endif
