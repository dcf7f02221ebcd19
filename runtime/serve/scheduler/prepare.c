#define _GNU_SOURCE
#include "prepare.h"
#include "content.h"
#include "job_end.h"
#include "media_store.h"
#include "progress.h"
#include "request.h"
#include "slot_methods.h"
#include "text_length.h"
#include "tokenize.h"
#include "trace.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Waits for a job; NULL when the server ends. */
static serve_job *take_job(serve_server *s, serve_queue *from) {
    pthread_mutex_lock(&s->lock);
    serve_job *j = NULL;
    while (!atomic_load(&s->quitting) && !(j = serve_queue_take(from)))
        pthread_cond_wait(&s->stirred, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return j;
}

/* A request without a seed gets one that nobody can guess. */
static void choose_seed(serve_request *r) {
    uint64_t seed;
    if (json_is_integer(json_object_get(r->json, "seed"))) return;
    if (getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed) r->sampling.seed = seed;
}

/* The parsed request takes about as many bytes of strings as its text has, and its tree beside: it has the room of the
 * body, and more for the tree, until it ends. */
static bool take_room(serve_server *s, serve_job *j, serve_problem *p) {
    serve_request *r = j->request;
    if (!serve_request_size(&r->n_tree, j->api, j->body.data, j->body.n, p)) return false;
    if (r->n_tree > s->config->max_bodies_bytes - j->body.n)
        return serve_refuse(p, 413, NULL, "request_too_large",
                            "the body takes more memory than all requests may");
    if (!serve_server_take_body(s, r->n_tree))
        return serve_refuse(p, 503, NULL, "overloaded", "no room for more requests now");
    r->n_room_bytes = r->n_tree + j->body.n;
    return true;
}

/* Arguments of calls are texts in the body; the template has their trees. */
static bool take_room_for_calls(serve_server *s, serve_request *r, serve_problem *p) {
    const size_t n = r->n_call_trees;
    if (n > s->config->max_bodies_bytes - r->n_room_bytes)
        return serve_refuse(p, 413, "messages", "request_too_large", "the calls' arguments take more memory than all requests may");
    if (!serve_server_take_body(s, n)) return serve_refuse(p, 503, NULL, "overloaded", "no room for more requests now");
    r->n_room_bytes += n;
    return true;
}

static bool parse(serve_job *j, serve_problem *p) {
    serve_server *s = j->server;
    serve_request *r = calloc(1, sizeof *r);
    if (!r) return serve_refuse(p, 503, NULL, "out_of_memory", "no memory for the request");
    j->request = r;
    if (!take_room(s, j, p)) return false;
    size_t n_tree = r->n_tree, n_room_bytes = r->n_room_bytes;
    bool ok = serve_request_parse(r, s->config, s->info.vocab, j->api, j->body.data, j->body.n, p);
    r->n_tree = n_tree + r->n_call_trees;
    r->n_room_bytes = n_room_bytes;
    ok = ok && take_room_for_calls(s, r, p);
    serve_buffer_free(&j->body);  /* its room is the request's from here on */
    pthread_mutex_lock(&j->lock); /* the watch reads the stream flag and the deadline */
    j->stream = r->stream;
    j->timeout_s = r->timeout_s;
    pthread_mutex_unlock(&j->lock);
    j->priority = r->priority;
    choose_seed(r);
    if (r->adapter) j->model = r->adapter;
    return ok;
}

static void hand_on(serve_server *s, serve_job *j, serve_queue *to) {
    pthread_mutex_lock(&s->lock);
    size_t n_before = to->n;
    pthread_mutex_unlock(&s->lock);
    if (j->request) serve_progress_tell(j, "queue", -1, 0, (int64_t)n_before);
    pthread_mutex_lock(&s->lock);
    serve_queue_add(to, j);
    pthread_cond_broadcast(&s->stirred);
    pthread_mutex_unlock(&s->lock);
}

static void refuse(serve_job *j, const serve_problem *p) {
    if (atomic_load(&j->cancelled))
        serve_job_fail(j, SAC_CANCELLED, &(sac_error){0});
    else
        serve_job_end(j, p);
}

static void make_ready(serve_server *s, serve_job *j) {
    j->trace = serve_trace_open(j->request, s->model);
    hand_on(s, j, &s->ready);
}

/* What only asks for tokens is answered here. */
static void count_tokens(serve_server *s, serve_job *j) {
    serve_problem p = {0};
    size_t n_tree;
    char *text = NULL;
    if (serve_tokenize_takes(j->body.n, &p) && serve_request_size(&n_tree, j->api, j->body.data, j->body.n, &p))
        text = serve_tokenize(s->model, s->config, s->n_ctx, j->task, j->body.data, j->body.n, &p);
    if (text) serve_job_output(j, text, strlen(text));
    free(text);
    serve_job_end(j, p.status ? &p : NULL);
}

static bool parse_and_check(serve_job *j, serve_problem *p) {
    const serve_server *s = j->server;
    return parse(j, p) && serve_methods_check(s, j->request->methods, p) &&
           (serve_text_bytes(j->request) <= SERVE_LONG_TEXT || serve_text_may_fit(j->request, s->tokens, s->n_ctx, p));
}

/* Whatever takes long is for the other threads: nobody's text waits for it. */
void *serve_parse_run(void *server) {
    serve_server *s = server;
    for (serve_job *j; (j = take_job(s, &s->intake));) {
        serve_problem p = {0};
        if (j->task != SERVE_ANSWER && j->body.n > SERVE_LONG_TEXT)
            hand_on(s, j, &s->media_queue);
        else if (j->task != SERVE_ANSWER)
            count_tokens(s, j);
        else if (!parse_and_check(j, &p))
            refuse(j, &p);
        else if (j->request->n_media || serve_text_bytes(j->request) > SERVE_LONG_TEXT)
            hand_on(s, j, &s->media_queue);
        else
            make_ready(s, j);
    }
    return NULL;
}

static bool decode(serve_job *j, serve_problem *p) {
    serve_server *s = j->server;
    if (j->request->n_media && !serve_media_get(j, p)) return false;
    if (serve_text_bytes(j->request) > SERVE_LONG_TEXT && !serve_text_fits(j->request, s->model, s->tokens, s->n_ctx, &j->cancelled, p)) return false;
    const size_t n = serve_content_drop_urls(j->request);
    j->request->n_room_bytes -= n;
    serve_server_return_room(s, n);
    return true;
}

void *serve_decode_run(void *server) {
    serve_server *s = server;
    for (serve_job *j; (j = take_job(s, &s->media_queue));) {
        serve_problem p = {0};
        if (j->task != SERVE_ANSWER)
            count_tokens(s, j);
        else if (decode(j, &p))
            make_ready(s, j);
        else
            refuse(j, &p);
    }
    return NULL;
}
