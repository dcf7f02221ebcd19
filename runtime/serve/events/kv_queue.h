/* kv_queue.h - events on their way from the store to who sends them. Where too many wait, all that wait are dropped, and one that says
 * that all blocks are cleared stands for them: nobody who reads on counts on a block that may be gone. No lock of its own. */
#ifndef SERVE_KV_QUEUE_H
#define SERVE_KV_QUEUE_H

#include "kv_batch.h"

typedef struct serve_kv_queue {
    serve_kv_event *first, **end;
    size_t n, most;
} serve_kv_queue;

void serve_kv_queue_init(serve_kv_queue *q, size_t most);
void serve_kv_queue_free(serve_kv_queue *q);

/* Appends one, which goes over; NULL: there was no memory for it. Returns how many were lost. */
size_t serve_kv_queue_add(serve_kv_queue *q, serve_kv_event *e);
/* Says that all blocks are cleared, behind what waits. */
void serve_kv_queue_clear(serve_kv_queue *q);
/* Takes at most n out, *n of them: a list that ends with NULL, the caller's. */
serve_kv_event *serve_kv_queue_take(serve_kv_queue *q, size_t *n);

void serve_kv_events_free(serve_kv_event *first);

#endif
