#include "queue.h"

void serve_queue_add(serve_queue *q, serve_job *j) {
    j->queue_next = NULL;
    if (q->last)
        q->last->queue_next = j;
    else
        q->first = j;
    q->last = j;
    q->n++;
}

bool serve_queue_remove(serve_queue *q, serve_job *j) {
    serve_job *before = NULL;
    for (serve_job *i = q->first; i; before = i, i = i->queue_next) {
        if (i != j) continue;
        if (before)
            before->queue_next = j->queue_next;
        else
            q->first = j->queue_next;
        if (q->last == j) q->last = before;
        j->queue_next = NULL;
        q->n--;
        return true;
    }
    return false;
}

serve_job *serve_queue_next(const serve_queue *q, bool (*may)(serve_job *j, void *ctx), void *ctx) {
    const uint64_t *served = q->served;
    serve_job *best = NULL;
    for (serve_job *i = q->first; i; i = i->queue_next) {
        if (may && !may(i, ctx)) continue;
        if (!best || served[i->client % SERVE_CLIENT_BUCKETS] < served[best->client % SERVE_CLIENT_BUCKETS])
            best = i;
    }
    return best;
}

void serve_queue_serve(serve_queue *q, serve_job *j) {
    q->served[j->client % SERVE_CLIENT_BUCKETS] = ++q->ticket;
    serve_queue_remove(q, j);
}

serve_job *serve_queue_take(serve_queue *q) {
    serve_job *j = serve_queue_next(q, NULL, NULL);
    if (j) serve_queue_serve(q, j);
    return j;
}
