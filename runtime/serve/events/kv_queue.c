#include "kv_queue.h"

#include <stdlib.h>

void serve_kv_queue_init(serve_kv_queue *q, size_t most) {
    *q = (serve_kv_queue){.most = most};
    q->end = &q->first;
}

void serve_kv_events_free(serve_kv_event *first) {
    for (serve_kv_event *next; first; first = next) {
        next = first->next;
        free(first);
    }
}

void serve_kv_queue_free(serve_kv_queue *q) {
    serve_kv_events_free(q->first);
    serve_kv_queue_init(q, q->most);
}

static void append(serve_kv_queue *q, serve_kv_event *e) {
    *q->end = e;
    q->end = &e->next;
    q->n++;
}

void serve_kv_queue_clear(serve_kv_queue *q) {
    serve_kv_event *e = calloc(1, sizeof *e);
    if (!e) return;
    e->kind = SERVE_KV_CLEARED;
    append(q, e);
}

size_t serve_kv_queue_add(serve_kv_queue *q, serve_kv_event *e) {
    if (e && q->n < q->most) {
        append(q, e);
        return 0;
    }
    const size_t n_lost = q->n + 1;
    free(e);
    serve_kv_queue_free(q);
    serve_kv_queue_clear(q);
    return n_lost;
}

serve_kv_event *serve_kv_queue_take(serve_kv_queue *q, size_t *n) {
    const size_t most = *n;
    serve_kv_event *first = q->first, **end = &first;
    for (*n = 0; *end && *n < most; ++*n) end = &(*end)->next;
    q->first = *end;
    if (!q->first) q->end = &q->first;
    *end = NULL;
    q->n -= *n;
    return first;
}
