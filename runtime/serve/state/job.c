#define _GNU_SOURCE
#include "job.h"
#include "clock.h"
#include "make_id.h"
#include "state.h"

#include <stdlib.h>
#include <time.h>

static const char *const id_prefixes[] = {[SERVE_API_COMPLETIONS] = "cmpl-",
                                          [SERVE_API_CHAT] = "chatcmpl-",
                                          [SERVE_API_RESPONSES] = "resp_",
                                          [SERVE_API_MESSAGES] = "msg_",
                                          [SERVE_API_EMBEDDINGS] = "embd-",
                                          [SERVE_API_SCORE] = "score-",
                                          [SERVE_API_RERANK] = "rerank-"};

serve_job *serve_job_create(serve_server *s, serve_api api) {
    serve_job *j = calloc(1, sizeof *j);
    if (!j) return NULL;
    j->server = s;
    atomic_init(&j->n_owners, 1);
    atomic_init(&j->cancelled, false);
    atomic_init(&j->timed_out, false);
    pthread_mutex_init(&j->lock, NULL);
    j->created = time(NULL);
    j->arrived_ns = j->output_ns = sac_now_ns();
    j->fd = -1;
    j->api = api;
    j->model = s->config->model_name;
    serve_make_id(j->id, sizeof j->id, id_prefixes[api]);
    return j;
}

void serve_job_keep(serve_job *j) {
    atomic_fetch_add(&j->n_owners, 1);
}

void serve_job_release(serve_job *j) {
    if (!j || atomic_fetch_sub(&j->n_owners, 1) != 1) return;
    serve_server_return_body(j->server, &j->body);
    serve_buffer_free(&j->out);
    pthread_mutex_destroy(&j->lock);
    free(j);
}

void serve_job_wake(serve_job *j) {
    if (!j->suspended) return;
    j->suspended = false;
    if (j->connection) j->resume(j->connection);
}

void serve_job_output(serve_job *j, const char *text, size_t n) {
    pthread_mutex_lock(&j->lock);
    serve_buffer_add(&j->out, text, n);
    j->output_ns = sac_now_ns();
    if (j->stream) {
        j->begun = true;
        serve_job_wake(j);
    }
    pthread_mutex_unlock(&j->lock);
}

/* An error after the headers of a stream: its last event. */
static void add_error_event(serve_job *j, const serve_problem *problem) {
    char *text = serve_problem_json(problem, j->api);
    if (j->api == SERVE_API_RESPONSES || j->api == SERVE_API_MESSAGES) serve_buffer_text(&j->out, "event: error\n");
    serve_buffer_text(&j->out, "data: ");
    serve_buffer_text(&j->out, text ? text : "{\"error\": {}}");
    serve_buffer_text(&j->out, "\n\n");
    free(text);
}

void serve_job_finish(serve_job *j, const serve_problem *problem) {
    pthread_mutex_lock(&j->lock);
    if (problem && problem->status) {
        j->problem = *problem;
        if (j->begun) add_error_event(j, problem);
    } else if (j->stream && (j->api == SERVE_API_CHAT || j->api == SERVE_API_COMPLETIONS)) {
        serve_buffer_text(&j->out, "data: [DONE]\n\n");
    }
    if (j->out.failed && !j->problem.status)
        serve_refuse(&j->problem, 503, NULL, "out_of_memory", "no memory for the answer");
    j->done = true;
    serve_job_wake(j);
    pthread_mutex_unlock(&j->lock);
}

void serve_job_cancel(serve_job *j) {
    atomic_store(&j->cancelled, true);
    serve_server_stir(j->server);
}
