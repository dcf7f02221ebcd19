/* queue.h - jobs that wait, and who is taken next: whoever has least left to be run, as far as that is fair.
 *
 * Of one client the job with the lowest priority number comes first (vLLM's `priority`), then the one that weighs least.
 * Between clients it is fair queueing (Demers, Keshav, Shenker 1989) by finish tags: a job begins at what its client has been
 * served so far, no less than where the job began that was being served when it came (the clock of Goyal, Vin, Cheng 1996),
 * and ends its own weight later. The least end is next. So a light job goes before heavy ones, and a client with a hundred does not hold up
 * one with a single one. Nor are heavy ones put off for ever: of SERVE_OLDEST_TURN jobs that are taken, one is the job
 * that has waited longest. So a job that finds n others waiting is taken after at most SERVE_OLDEST_TURN (n + 1) jobs, those with
 * an earlier priority apart. */
#ifndef SERVE_QUEUE_H
#define SERVE_QUEUE_H

#include "job.h"

enum { SERVE_CLIENT_BUCKETS = 1024, SERVE_OLDEST_TURN = 4 };

typedef struct serve_queue {
    serve_job *first, *last; /* in order of arrival */
    size_t n;
    uint64_t n_added;
    bool shared_priorities; /* priorities count among all clients, not only among one's own jobs */
    int n_since_oldest;     /* jobs taken since the one that had waited longest was */
    double clock;           /* where the job began that was taken last, or one before it that began later */
    double served[SERVE_CLIENT_BUCKETS]; /* where a client's last job ended; clients may share a bucket */
} serve_queue;

/* How jobs are judged; a function that is NULL: all may be taken, and weigh 1. */
typedef struct serve_judge {
    bool (*may)(serve_job *j, void *ctx);
    double (*weigh)(serve_job *j, void *ctx); /* above 0 */
    void *ctx;
    bool between; /* for a place that not all may have: the lightest, and it is nobody's turn */
} serve_judge;

/* The callers hold a lock of their own. */
void serve_queue_add(serve_queue *q, serve_job *j);
/* The one that is taken next, of those that may be; NULL when there is none. */
serve_job *serve_queue_next(const serve_queue *q, const serve_judge *judge);
/* Takes it out, as judged so, and its client counts as served with so much. */
void serve_queue_serve(serve_queue *q, const serve_judge *judge, serve_job *j, double weight);
/* Both, with all alike; NULL when empty. */
serve_job *serve_queue_take(serve_queue *q);
bool serve_queue_remove(serve_queue *q, serve_job *j);

/* Whether a job of this client and priority goes before another whatever they weigh. */
static inline bool serve_precedes(bool shared, uint64_t client, int64_t priority, uint64_t other, int64_t other_priority) {
    return priority < other_priority && (shared || client == other);
}

#endif
