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

serve_job *serve_queue_take(serve_queue *q) {
    serve_job *best = q->first;
    for (serve_job *i = best; i; i = i->queue_next)
        if (q->served[i->client % SERVE_CLIENT_BUCKETS] < q->served[best->client % SERVE_CLIENT_BUCKETS])
            best = i;
    if (!best) return NULL;
    q->served[best->client % SERVE_CLIENT_BUCKETS] = ++q->ticket;
    serve_queue_remove(q, best);
    return best;
}
