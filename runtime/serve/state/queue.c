#include "queue.h"

void serve_queue_add(serve_queue *q, serve_job *j) {
    j->queue_next = NULL;
    j->queue_clock = q->clock;
    j->queue_number = q->n_added++;
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

static size_t bucket_of(const serve_job *j) {
    return j->client % SERVE_CLIENT_BUCKETS;
}

static bool may_be_taken(const serve_judge *judge, serve_job *j) {
    return !judge->may || judge->may(j, judge->ctx);
}

static double weight_of(const serve_judge *judge, serve_job *j) {
    return judge->weigh ? judge->weigh(j, judge->ctx) : 1;
}

static double begin_of(const serve_queue *q, const serve_job *j) {
    const double served = q->served[bucket_of(j)];
    return served > j->queue_clock ? served : j->queue_clock;
}

/* A client's next job, if the queue were its own. */
typedef struct candidate {
    serve_job *job;
    double weight;
} candidate;

/* Below 0: `j` goes before `other` by its priority. Clients that share a bucket do not share their priorities. */
static int compare_priorities(const serve_queue *q, const serve_job *j, const serve_job *other) {
    if (!q->shared_priorities && j->client != other->client) return 0;
    return (j->priority > other->priority) - (j->priority < other->priority);
}

/* One a bucket; those of earlier arrival where the others are alike. */
static void find_candidates(const serve_queue *q, const serve_judge *judge,
                            candidate best[SERVE_CLIENT_BUCKETS]) {
    for (serve_job *j = q->first; j; j = j->queue_next) {
        candidate *b = &best[bucket_of(j)];
        const int order = b->job ? compare_priorities(q, j, b->job) : -1;
        if (order > 0 || !may_be_taken(judge, j)) continue;
        const double weight = weight_of(judge, j);
        if (order < 0 || weight < b->weight) *b = (candidate){j, weight};
    }
}

/* The job that has waited longest, if none of its client's comes first by its priority. */
static serve_job *find_oldest(const serve_queue *q, const serve_judge *judge,
                              const candidate best[SERVE_CLIENT_BUCKETS], int64_t priority) {
    for (serve_job *j = q->first; j; j = j->queue_next) {
        const serve_job *own = best[bucket_of(j)].job;
        if (own && compare_priorities(q, own, j) >= 0 && (!q->shared_priorities || j->priority == priority) &&
            may_be_taken(judge, j))
            return j;
    }
    return NULL;
}

/* The earliest priority of all. */
static int64_t first_priority(const candidate best[SERVE_CLIENT_BUCKETS]) {
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < SERVE_CLIENT_BUCKETS; i++)
        if (best[i].job && best[i].job->priority < first) first = best[i].job->priority;
    return first;
}

static serve_job *find_lightest(const serve_queue *q, const candidate best[SERVE_CLIENT_BUCKETS],
                                int64_t priority) {
    serve_job *found = NULL;
    double least = 0;
    for (size_t i = 0; i < SERVE_CLIENT_BUCKETS; i++) {
        const candidate *b = &best[i];
        if (!b->job || (q->shared_priorities && b->job->priority != priority)) continue;
        const double end = begin_of(q, b->job) + b->weight;
        const bool is_earlier = found && end <= least && b->job->queue_number < found->queue_number;
        if (found && end >= least && !is_earlier) continue;
        found = b->job;
        least = end;
    }
    return found;
}

static bool is_turn_of_oldest(const serve_queue *q, const serve_judge *judge) {
    return !judge->between && q->n_since_oldest + 1 >= SERVE_OLDEST_TURN;
}

static serve_job *find_next(const serve_queue *q, const serve_judge *judge) {
    candidate best[SERVE_CLIENT_BUCKETS] = {{0}};
    find_candidates(q, judge, best);
    const int64_t priority = first_priority(best);
    return is_turn_of_oldest(q, judge) ? find_oldest(q, judge, best, priority)
                                       : find_lightest(q, best, priority);
}

serve_job *serve_queue_next(const serve_queue *q, const serve_judge *judge) {
    return q->first ? find_next(q, judge) : NULL;
}

void serve_queue_serve(serve_queue *q, const serve_judge *judge, serve_job *j, double weight) {
    const double begin = begin_of(q, j);
    if (begin > q->clock) q->clock = begin;
    q->served[bucket_of(j)] = begin + weight;
    q->n_since_oldest = j == q->first || is_turn_of_oldest(q, judge) ? 0 : q->n_since_oldest + 1;
    serve_queue_remove(q, j);
}

serve_job *serve_queue_take(serve_queue *q) {
    const serve_judge alike = {0};
    serve_job *j = serve_queue_next(q, &alike);
    if (j) serve_queue_serve(q, &alike, j, 1);
    return j;
}
