#include "state.h"
#include "clock.h"
#include "cpu_quota.h"

#include <math.h>
#include <time.h>

/* Of requests under way, so that one client cannot fill the queue for all. */
static size_t most_of_a_client(const serve_server *s, size_t most) {
    return s->config->n_client_requests ? (size_t)s->config->n_client_requests : most - most / 8;
}

static size_t count_of_client(const serve_server *s, uint64_t client) {
    size_t n = 0;
    for (const serve_job *j = s->jobs; j; j = j->next) n += j->client == client;
    return n;
}

static void note_asker(serve_server *s, uint64_t client) {
    if (s->askers[0].client != client) s->askers[1] = s->askers[0];
    s->askers[0] = (serve_asker){client, sac_now_ns()};
}

bool serve_server_has_others(const serve_server *s, uint64_t client) {
    const double a_while_s = 60;
    const serve_asker *other = &s->askers[s->askers[0].client == client];
    return other->ns && sac_seconds_since(other->ns) < a_while_s;
}

/* ---------------------------------------------------------------- when to come again */

/* One of those under way has ended: how long after the one before it, or after the server was idle. The last ones count
 * most. */
static void note_end(serve_server *s) {
    const int64_t now = sac_now_ns();
    const double gap = (double)(now - s->ended_ns) * 1e-9;
    s->end_gap_s = s->end_gap_s > 0 ? 0.75 * s->end_gap_s + 0.25 * gap : gap;
    s->ended_ns = now;
}

int serve_server_retry_after(const serve_server *s, size_t n_own) {
    const double most = 600, waited = sac_seconds_since(s->ended_ns);
    const double gap = waited > s->end_gap_s ? waited : s->end_gap_s;
    const double wait = ceil(gap * (double)s->n_jobs / (double)(n_own ? n_own : 1));
    return wait < 1 ? 1 : wait > most ? (int)most : (int)wait;
}

/* whose: "" or " of yours". */
static bool refuse_full(const serve_server *s, size_t n_own, serve_problem *p, const char *code,
                        const char *whose) {
    const int wait = serve_server_retry_after(s, n_own);
    serve_refuse(p, 429, NULL, code, "%zu requests%s are under way already: try again in %d s", n_own, whose,
                 wait);
    p->retry_after_s = wait;
    return false;
}

bool serve_server_admit(serve_server *s, serve_job *j, serve_problem *p) {
    bool ok = true;
    pthread_mutex_lock(&s->lock);
    size_t most = (size_t)s->config->n_queue + (size_t)s->config->n_slots;
    if (atomic_load(&s->broken))
        ok = serve_refuse(p, 503, NULL, "device_failed", "the device failed, and the server ends");
    else if (atomic_load(&s->draining) || atomic_load(&s->quitting))
        ok = serve_refuse(p, 503, NULL, "shutting_down", "the server is shutting down");
    else if (!atomic_load(&s->answers))
        ok = serve_refuse(p, 503, NULL, "starting", "the model is not ready yet");
    else if (s->n_jobs >= most)
        ok = refuse_full(s, s->n_jobs, p, "queue_full", "");
    else if (count_of_client(s, j->client) >= most_of_a_client(s, most))
        ok = refuse_full(s, count_of_client(s, j->client), p, "client_queue_full", " of yours");
    note_asker(s, j->client);
    if (ok) {
        serve_job_keep(j);
        j->next = s->jobs;
        j->previous = NULL;
        if (j->next) j->next->previous = j;
        s->jobs = j;
        if (s->n_jobs++ == 0) s->ended_ns = sac_now_ns();
        serve_queue_add(&s->intake, j);
        pthread_cond_broadcast(&s->stirred);
    }
    pthread_mutex_unlock(&s->lock);
    return ok;
}

/* In one step: a client that has its answer may ask again at once, and finds its place free. */
void serve_server_dismiss(serve_server *s, serve_job *j, const serve_problem *problem) {
    pthread_mutex_lock(&s->lock);
    if (j->previous)
        j->previous->next = j->next;
    else
        s->jobs = j->next;
    if (j->next) j->next->previous = j->previous;
    s->n_jobs--;
    note_end(s);
    serve_job_finish(j, problem);
    pthread_cond_broadcast(&s->stirred);
    pthread_mutex_unlock(&s->lock);
    serve_job_release(j);
}

int serve_n_decoders(void) {
    const int64_t room =
        (int64_t)8 << 30; /* of memory: there may be two children for each, which may take 1.5 GiB and their file */
    int64_t n = sac_usable_processors(),
            fit = (int64_t)(sac_usable_memory() / (double)room);
    if (n > fit) n = fit;
    return n < 2 ? 2 : n < SERVE_MOST_DECODERS ? (int)n : SERVE_MOST_DECODERS;
}

void serve_server_init(serve_server *s, const sac_model *model, const serve_config *config) {
    *s = (serve_server){.model = model, .config = config, .started = time(NULL), .request_log = -1};
    serve_client_seed(s->seed);
    sac_model_get_info(model, &s->info);
    s->media_queue.shared_priorities = s->ready.shared_priorities = config->shared_priorities;
    atomic_init(&s->answers, false);
    atomic_init(&s->draining, false);
    atomic_init(&s->quitting, false);
    atomic_init(&s->broken, false);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->stirred, NULL);
}

void serve_server_destroy(serve_server *s) {
    pthread_cond_destroy(&s->stirred);
    pthread_mutex_destroy(&s->lock);
}

void serve_server_note_failure(serve_server *s, sac_status st, const sac_error *err) {
    if (st != SAC_DEVICE) return;
    pthread_mutex_lock(&s->lock);
    if (!atomic_load(&s->broken)) s->failure = *err;
    atomic_store(&s->broken, true);
    pthread_mutex_unlock(&s->lock);
}
