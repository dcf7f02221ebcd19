#define _GNU_SOURCE
#include "request_log.h"
#include "clock.h"
#include "connections.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

sac_status serve_request_log_open(serve_server *s, sac_error *err) {
    const char *path = s->config->request_log;
    if (!path) return SAC_OK;
    s->request_log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    if (s->request_log >= 0) return SAC_OK;
    return sac_fail(err, SAC_IO, "--request-log %s: %s", path, strerror(errno));
}

void serve_request_log_close(serve_server *s) {
    if (s->request_log >= 0) close(s->request_log);
    s->request_log = -1;
}

/* ---------------------------------------------------------------- a line */

static json_t *time_now(void) {
    struct timespec t;
    struct tm u;
    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &u);
    char text[40];
    size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &u);
    snprintf(text + n, sizeof text - n, ".%03ldZ", t.tv_nsec / 1000000);
    return json_string(text);
}

/* A path is a stranger's bytes; one that is no UTF-8 is not repeated. */
static json_t *text_of(const char *text) {
    json_t *j = json_string(text);
    return j ? j : json_null();
}

static double seconds(int64_t from, int64_t to) {
    return from && to > from ? (double)(to - from) * 1e-9 : 0;
}

/* A message may repeat what was asked, so it is not logged. */
static void add_error(json_t *line, const serve_problem *p) {
    const char *kind = p->status < 500 ? "invalid_request" : "server_error";
    if (p->status) json_object_set_new(line, "error", text_of(p->code ? p->code : kind));
}

static void add_job(json_t *line, serve_job *j) {
    pthread_mutex_lock(&j->lock);
    serve_tally t = j->tally;
    bool stream = j->stream;
    pthread_mutex_unlock(&j->lock);
    json_object_set_new(line, "id", json_string(j->id));
    json_object_set_new(line, "model", text_of(j->model));
    json_object_set_new(line, "stream", json_boolean(stream));
    if (!t.started_ns) return;
    json_object_set_new(line, "queue_s", json_real(seconds(j->arrived_ns, t.started_ns)));
    if (!t.n_prompt) return;
    json_object_set_new(line, "finish_reason", json_string(t.reason));
    json_object_set_new(line, "prompt_tokens", json_integer((json_int_t)t.n_prompt));
    json_object_set_new(line, "cached_tokens", json_integer((json_int_t)t.n_cached));
    json_object_set_new(line, "completion_tokens", json_integer((json_int_t)t.n_answer));
    json_object_set_new(line, "media", json_integer((json_int_t)t.n_media));
    if (t.first_ns) json_object_set_new(line, "first_token_s", json_real(seconds(j->arrived_ns, t.first_ns)));
}

static json_t *line_of(const serve_exchange *x, bool left) {
    char address[64];
    serve_connection_write_address(x->connection, address, sizeof address);
    json_t *line = json_pack("{s:o, s:s, s:o, s:o, s:i, s:f}", "time", time_now(), "client", address,
                             "method", text_of(x->method), "path", text_of(x->path), "status", x->status,
                             "total_s", seconds(x->arrived_ns, sac_now_ns()));
    if (!line) return NULL;
    if (left) json_object_set_new(line, "left", json_true());
    serve_problem problem = x->problem;
    if (x->job) {
        pthread_mutex_lock(&x->job->lock);
        if (x->job->problem.status) problem = x->job->problem;
        pthread_mutex_unlock(&x->job->lock);
    }
    add_error(line, &problem);
    if (x->job) add_job(line, x->job);
    return line;
}

/* A disk that is full or fails is told of once. */
static void write_line(serve_server *s, const char *text, size_t n) {
    ssize_t done = write(s->request_log, text, n);
    if (done == (ssize_t)n || s->request_log_failed) return;
    s->request_log_failed = true;
    fprintf(stderr, "saccade: --request-log %s: %s; lines are missing from here on\n", s->config->request_log,
            done < 0 ? strerror(errno) : "the disk is full");
}

void serve_request_log_write(const serve_exchange *x, bool left) {
    static const char *const silent[] = {"/health", "/metrics"};
    if (x->server->request_log < 0) return;
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++)
        if (!strcmp(x->path, silent[i])) return;
    json_t *line = line_of(x, left);
    char *text = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    size_t n = text ? strlen(text) : 0;
    if (text) text[n] = '\n'; /* one write a line: others may append to the file, too */
    if (text) write_line(x->server, text, n + 1);
    free(text);
    json_decref(line);
}
