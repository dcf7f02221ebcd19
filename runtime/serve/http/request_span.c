#define _GNU_SOURCE
#include "request_span.h"
#include "clock.h"
#include "spans.h"

#include <stdio.h>
#include <time.h>

/* Requests for answers; others run nothing. */
static bool is_traced(const serve_exchange *x) {
    return x->server->spans && x->route && !x->route->run && x->route->task == SERVE_ANSWER;
}

void serve_request_span_begin(serve_exchange *x) {
    if (!is_traced(x)) return;
    serve_trace_context_read(&x->trace, serve_exchange_header(x, "traceparent"), serve_exchange_header(x, "tracestate"));
}

static int64_t unix_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A message may repeat what was asked, so the code stands for it. */
static void add_problem(serve_span *s, const serve_problem *p) {
    if (!p->status) return;
    s->failed = p->status >= 500;
    snprintf(s->error, sizeof s->error, "%s", p->code ? p->code : p->status < 500 ? "invalid_request" : "server_error");
}

static void add_job(serve_span *s, serve_job *j) {
    snprintf(s->request_id, sizeof s->request_id, "%s", j->id);
    snprintf(s->model, sizeof s->model, "%s", j->model);
    s->arrived_ns = j->arrived_ns;
    pthread_mutex_lock(&j->lock);
    s->stream = j->stream;
    s->tally = j->tally;
    add_problem(s, &j->problem);
    pthread_mutex_unlock(&j->lock);
}

/* Refused at the door: whoever knocks would else fill the collector. */
static bool was_let_in(const serve_exchange *x) {
    return x->job || (x->status != 401 && x->status != 403);
}

void serve_request_span_end(const serve_exchange *x, bool left) {
    if (!is_traced(x) || !x->trace.recorded || !was_let_in(x)) return;
    const int64_t now = unix_ns();
    serve_span s = {.context = x->trace,
                    .start_ns = now - (sac_now_ns() - x->arrived_ns),
                    .end_ns = now,
                    .method = x->route->method,
                    .route = x->route->path,
                    .http_status = x->status,
                    .left = left};
    add_problem(&s, &x->problem);
    if (x->job) add_job(&s, x->job);
    serve_spans_add(x->server->spans, &s);
}
