#include "state.h"
#include "clock.h"

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
        ok = serve_refuse(p, 429, NULL, "queue_full", "%zu requests are under way already: try again later",
                          s->n_jobs);
    else if (count_of_client(s, j->client) >= most_of_a_client(s, most))
        ok = serve_refuse(p, 429, NULL, "client_queue_full",
                          "%zu requests of yours are under way already: try again later",
                          most_of_a_client(s, most));
    note_asker(s, j->client);
    if (ok) {
        serve_job_keep(j);
        j->next = s->jobs;
        j->previous = NULL;
        if (j->next) j->next->previous = j;
        s->jobs = j;
        s->n_jobs++;
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
    serve_job_finish(j, problem);
    pthread_cond_broadcast(&s->stirred);
    pthread_mutex_unlock(&s->lock);
    serve_job_release(j);
}

void serve_server_init(serve_server *s, const sac_model *model, const serve_config *config) {
    *s = (serve_server){.model = model, .config = config, .started = time(NULL), .request_log = -1};
    sac_model_get_info(model, &s->info);
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
