#include "state.h"

#include <time.h>

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
    *s = (serve_server){.model = model, .config = config, .started = time(NULL)};
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
