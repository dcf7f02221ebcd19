#include "say.h"
#include "answer.h"
#include "job_end.h"
#include "metrics.h"

#include <stdlib.h>

struct serve_saying {
    serve_saying *next;
    serve_job *job;
    serve_answer answer;
};

bool serve_say(serve_job *j, const serve_answer *a) {
    serve_server *s = j->server;
    serve_saying *new = malloc(sizeof *new);
    if (!new) return false;
    *new = (serve_saying){.job = j, .answer = *a};
    pthread_mutex_lock(&s->lock);
    serve_saying **end = &s->to_say;
    while (*end) end = &(*end)->next;
    *end = new;
    pthread_cond_broadcast(&s->stirred);
    pthread_mutex_unlock(&s->lock);
    serve_metrics_count(s->metrics, SERVE_COUNT_said_apart, 1);
    return true;
}

/* NULL when the server quits. */
static serve_saying *take(serve_server *s) {
    pthread_mutex_lock(&s->lock);
    while (!s->to_say && !atomic_load(&s->quitting)) pthread_cond_wait(&s->stirred, &s->lock);
    serve_saying *first = s->to_say;
    if (first) s->to_say = first->next;
    pthread_mutex_unlock(&s->lock);
    return first;
}

void *serve_say_run(void *server) {
    for (serve_saying *x; (x = take(server));) {
        serve_answer_finish(&x->answer);
        serve_answer_free(&x->answer);
        serve_job_end(x->job, NULL);
        free(x);
    }
    return NULL;
}
