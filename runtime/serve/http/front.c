#define _GNU_SOURCE
#include "front.h"
#include "clock.h"
#include "connections.h"
#include "exchange.h"
#include "files.h"
#include "metrics.h"
#include "origin.h"
#include "request_log.h"
#include "request_span.h"
#include "status.h"
#include "strict.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

/* Bytes of an unwanted body that are read so that the reply can be sent in peace; a longer one is cut off. */
#define SWALLOW_BYTES ((size_t)16 << 20)

static int fd_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *i =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return i ? i->connect_fd : -1;
}

/* ---------------------------------------------------------------- streams */

/* Sends what the job has; suspends the connection when it has nothing yet. */
static ssize_t read_stream(void *cls, uint64_t at, char *to, size_t room) {
    serve_job *j = cls;
    (void)at;
    ssize_t n = 0;
    pthread_mutex_lock(&j->lock);
    if (j->out.n) {
        n = (ssize_t)(j->out.n < room ? j->out.n : room);
        memcpy(to, j->out.data, (size_t)n);
        serve_buffer_drop(&j->out, (size_t)n);
    } else if (j->left && !j->done) {
        n = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (j->done) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        MHD_suspend_connection(j->connection);
        j->suspended = true;
    }
    pthread_mutex_unlock(&j->lock);
    return n;
}

static void end_stream(void *cls) {
    serve_job_release(cls);
}

static enum MHD_Result start_stream(serve_exchange *x) {
    struct MHD_Response *r =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, read_stream, x->job, end_stream);
    if (!r) return MHD_NO;
    serve_job_keep(x->job);
    MHD_add_response_header(r, "Content-Type", "text/event-stream; charset=utf-8");
    MHD_add_response_header(r, "Cache-Control", "no-cache");
    MHD_add_response_header(r, "X-Accel-Buffering", "no"); /* nginx would hold the events back */
    serve_metrics_reply(x->server->metrics, 200);
    return serve_reply_response(x, r, 200);
}

/* The whole answer, taken out of the job. */
static enum MHD_Result reply_whole(serve_exchange *x) {
    serve_job *j = x->job;
    pthread_mutex_lock(&j->lock);
    serve_problem problem = j->problem;
    serve_buffer out = j->out;
    j->out = (serve_buffer){0};
    pthread_mutex_unlock(&j->lock);
    if (!problem.status) return serve_reply(x, 200, "application/json", out.data, out.n);
    serve_buffer_free(&out);
    return serve_reply_problem(x, &problem);
}

/* Called whenever the connection is resumed: replies when there is something to say. */
static enum MHD_Result answer(serve_exchange *x) {
    serve_job *j = x->job;
    pthread_mutex_lock(&j->lock);
    bool done = j->done, begun = j->begun, gone = j->left && !done;
    if (!done && !begun && !gone) {
        MHD_suspend_connection(x->connection);
        j->suspended = true;
    }
    pthread_mutex_unlock(&j->lock);
    if (begun) return start_stream(x);
    if (done) return reply_whole(x);
    return gone ? MHD_NO : MHD_YES;
}

/* ---------------------------------------------------------------- who asks */

/* In a time that does not tell how much of a key was right. */
static bool same_secret(const char *a, const char *b) {
    size_t na = strlen(a), nb = strlen(b);
    unsigned char differ = na != nb;
    for (size_t i = 0; i < na; i++) differ |= (unsigned char)(a[i] ^ b[nb ? i % nb : 0]);
    return !differ;
}

/* OpenAI's clients send it in one header, Anthropic's in another; NULL = none. */
static const char *key_of(const serve_exchange *x) {
    const char *value = serve_exchange_header(x, "Authorization");
    if (value && !strncasecmp(value, "Bearer ", 7)) return value + 7;
    return serve_exchange_header(x, "X-Api-Key");
}

static bool check_key(const serve_exchange *x, serve_problem *p) {
    const serve_texts *keys = &x->server->config->api_keys;
    if (keys->n == 0 || x->route->open) return true;
    const char *key = key_of(x);
    bool known = false;
    for (size_t i = 0; key && i < keys->n; i++) known |= same_secret(key, keys->items[i]);
    return known || serve_refuse(p, 401, NULL, "invalid_api_key",
                                 "no valid API key: send the header 'Authorization: Bearer KEY' or 'X-Api-Key: KEY'");
}

/* A page of another site may make a browser post here without being able to read the reply; that would still
 * spend this machine's time. */
static bool check_origin(const serve_exchange *x, const char *method, serve_problem *p) {
    const char *origin = serve_exchange_header(x, "Origin"), *host = serve_exchange_header(x, "Host");
    const serve_config *c = x->server->config;
    if (!serve_host_allowed(c, host))
        return serve_refuse(
            p, 403, NULL, "host_not_allowed",
            "the host '%.80s' is not this server: ask localhost or the address; --cors-origin "
            "allows a name",
            host);
    if (!origin || !strcmp(method, "GET") || serve_origin_allowed(c, origin)) return true;
    if (serve_origin_is_host(origin, host)) return true;
    return serve_refuse(p, 403, NULL, "origin_not_allowed",
                        "requests from pages of other sites are off; --cors-origin allows one");
}

static uint64_t client_of(const serve_exchange *x) {
    const char *key = key_of(x);
    if (key && x->server->config->api_keys.n > 1) return serve_client_hash(x->server->seed, key, strlen(key));
    return serve_connection_address(x->server, x->connection);
}

/* ---------------------------------------------------------------- receiving */

/* A whole request has come, or has been answered. */
static void set_busy(serve_exchange *x, bool busy) {
    if (!x->line) return;
    pthread_mutex_lock(&x->server->lock);
    x->line->busy = busy;
    x->line->ended = false;
    x->line->idle_ns = sac_now_ns();
    x->line->n_received = 0;
    pthread_mutex_unlock(&x->server->lock);
}

static void count_received(serve_exchange *x, size_t n) {
    if (!x->line) return;
    pthread_mutex_lock(&x->server->lock);
    x->line->n_received += n;
    pthread_mutex_unlock(&x->server->lock);
}

/* Content-Length, or 0 when the body comes in chunks or not at all. */
static uint64_t stated_length(const serve_exchange *x) {
    const char *text = serve_exchange_header(x, "Content-Length");
    return text ? strtoull(text, NULL, 10) : 0;
}

static size_t body_limit(const serve_exchange *x) {
    const serve_config *c = x->server->config;
    return x->route && x->route->takes_upload ? c->max_media_bytes + 65536 : c->max_body_bytes;
}

static bool refuse_length(serve_exchange *x) {
    return serve_refuse(&x->problem, 413, NULL, "request_too_large", "the body is longer than %zu bytes",
                        body_limit(x));
}

static const serve_route *find_route(serve_exchange *x, const char *method, const char *url, serve_problem *p) {
    if (strlen(url) >= sizeof x->path) {
        serve_refuse(p, 404, NULL, NULL, "no such path");
        return NULL;
    }
    strcpy(x->path, url);
    const serve_route *route = serve_route_find(method, url, p);
    if (route) x->api = route->api;
    return route;
}

static bool look_at(serve_exchange *x, const char *method, const char *url) {
    serve_problem *p = &x->problem, unknown = {0};
    const serve_route *route = find_route(x, method, url, &unknown);
    if (!serve_strict_check(x)) return false; /* before any other refusal: behind those the next request is read */
    x->route = route;
    if (!route) {
        *p = unknown;
        serve_route_methods(x->path, x->allow, sizeof x->allow);
        return false;
    }
    if (!check_origin(x, method, p) || !check_key(x, p)) return false;
    if (stated_length(x) > body_limit(x)) return refuse_length(x);
    if (!x->route->takes_upload) return true;
    return serve_files_begin(x->server, x->connection, &x->upload, p);
}

static enum MHD_Result begin(serve_server *s, struct MHD_Connection *connection, const char *url,
                             const char *method, void **ptr) {
    serve_exchange *x = calloc(1, sizeof *x);
    if (!x) return MHD_NO;
    const union MHD_ConnectionInfo *i =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    *x = (serve_exchange){
        .server = s, .connection = connection, .fd = fd_of(connection), .line = i ? i->socket_context : NULL, .api = SERVE_API_CHAT};
    snprintf(x->method, sizeof x->method, "%s", method);
    x->arrived_ns = sac_now_ns();
    *ptr = x;
    const bool wanted = look_at(x, method, url);
    serve_request_span_begin(x);
    /* Before the body is sent is the time to say that it is not wanted. */
    if (!wanted && (stated_length(x) > SWALLOW_BYTES || x->end_unknown))
        return serve_reply_problem(x, &x->problem);
    return MHD_YES;
}

/* A body in chunks that grows too long: libmicrohttpd cannot reply while it receives, so the reply is written
 * to the socket by hand (nothing has been sent on it for this request) and the connection closed. */
static enum MHD_Result cut_off(serve_exchange *x) {
    char *text = serve_problem_json(&x->problem, x->api), head[200];
    if (x->fd >= 0 && text) {
        int n = snprintf(head, sizeof head,
                         "HTTP/1.1 %d Refused\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                         "Connection: close\r\n\r\n",
                         x->problem.status, strlen(text));
        if (send(x->fd, head, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) == n)
            (void)!send(x->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    serve_metrics_reply(x->server->metrics, x->problem.status);
    x->status = x->problem.status;
    free(text);
    return MHD_NO;
}

static enum MHD_Result take(serve_exchange *x, const char *data, size_t n) {
    count_received(x, n);
    if (!x->problem.status && x->upload)
        serve_files_receive(x->upload, data, n, &x->problem);
    else if (!x->problem.status && n > body_limit(x) - x->body.n)
        refuse_length(x);
    else if (!x->problem.status && !serve_server_take_body(x->server, n))
        serve_refuse(&x->problem, 503, NULL, "overloaded", "no room for more request bodies now");
    else if (!x->problem.status)
        serve_buffer_add(&x->body, data, n);
    if (x->body.failed && !x->problem.status)
        serve_refuse(&x->problem, 503, NULL, "out_of_memory", "no memory for the body");
    if (!x->problem.status) return MHD_YES;
    x->n_swallowed += n;
    return x->n_swallowed > SWALLOW_BYTES ? cut_off(x) : MHD_YES;
}

static void resume(void *connection) {
    MHD_resume_connection(connection);
}

static enum MHD_Result start_job(serve_exchange *x) {
    serve_job *j = serve_job_create(x->server, x->route->api);
    if (!j) return MHD_NO;
    j->task = x->route->task;
    j->body = x->body;
    x->body = (serve_buffer){0};
    j->connection = x->connection;
    j->resume = resume;
    j->fd = x->fd;
    j->client = client_of(x);
    x->job = j;
    if (!serve_server_admit(x->server, j, &x->problem)) {
        serve_metrics_rejection(x->server->metrics, x->problem.code);
        return serve_reply_problem(x, &x->problem);
    }
    return answer(x);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data, size_t *n_data,
                                  void **ptr) {
    (void)version;
    serve_exchange *x = *ptr;
    if (!x) return begin(cls, connection, url, method, ptr);
    if (*n_data) {
        enum MHD_Result ok = take(x, data, *n_data);
        *n_data = 0;
        return ok;
    }
    if (x->job) return answer(x);
    set_busy(x, true);
    if (x->problem.status) return serve_reply_problem(x, &x->problem);
    return x->route->run ? x->route->run(x) : start_job(x);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **ptr,
                         enum MHD_RequestTerminationCode code) {
    (void)cls, (void)connection;
    serve_exchange *x = *ptr;
    if (!x) return;
    *ptr = NULL;
    set_busy(x, false);
    serve_request_log_write(x, code != MHD_REQUEST_TERMINATED_COMPLETED_OK);
    serve_request_span_end(x, code != MHD_REQUEST_TERMINATED_COMPLETED_OK);
    serve_job *j = x->job;
    if (j) {
        pthread_mutex_lock(&j->lock);
        j->connection = NULL;
        j->fd = -1;
        bool done = j->done;
        pthread_mutex_unlock(&j->lock);
        if (!done) serve_job_cancel(j);
        serve_job_release(j);
    }
    serve_files_abandon(x->upload);
    serve_server_return_body(x->server, &x->body);
    free(x);
}

/* ---------------------------------------------------------------- the daemon */

static sac_status parse_address(const serve_config *c, struct sockaddr_storage *a, sac_error *err) {
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)a;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)a;
    *a = (struct sockaddr_storage){0};
    if (inet_pton(AF_INET, c->host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)c->port);
        return SAC_OK;
    }
    if (inet_pton(AF_INET6, c->host, &v6->sin6_addr) != 1)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "host '%s' is no address: give 127.0.0.1, 0.0.0.0 or an IPv6 address", c->host);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons((uint16_t)c->port);
    return SAC_OK;
}

static void ignore_log(void *cls, const char *format, va_list args) {
    (void)cls, (void)format, (void)args; /* clients that leave are no news */
}

sac_status serve_front_open(serve_server *s, sac_error *err) {
    const serve_config *c = s->config;
    struct sockaddr_storage address;
    SAC_TRY(parse_address(c, &address, err));
    SAC_TRY(serve_request_log_open(s, err));
    unsigned flags =
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    if (address.ss_family == AF_INET6) flags |= MHD_USE_IPv6;
    errno = 0;
    s->daemon = MHD_start_daemon(
        flags, (uint16_t)c->port, NULL, NULL, on_request, s, MHD_OPTION_EXTERNAL_LOGGER, ignore_log, NULL,
        MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address, MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, serve_connection_notify, s, MHD_OPTION_UNESCAPE_CALLBACK,
        serve_strict_unescape, NULL, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)c->max_connections + SERVE_SPARE_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)(c->header_timeout_s + 0.999), MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)65536,
        MHD_OPTION_END);
    if (!s->daemon)
        return sac_fail(err, SAC_IO, "cannot listen on %s port %d: %s", c->host, c->port,
                        errno ? strerror(errno) : "address in use or not permitted");
    return SAC_OK;
}

void serve_front_close(serve_server *s) {
    if (s->daemon) MHD_stop_daemon(s->daemon);
    s->daemon = NULL;
    serve_request_log_close(s);
}

unsigned serve_front_port(const serve_server *s) {
    const union MHD_DaemonInfo *i = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT);
    return i ? i->port : 0u;
}

bool serve_front_is_busy(serve_server *s) {
    bool busy = false;
    pthread_mutex_lock(&s->lock);
    for (serve_connection *c = s->connections; c; c = c->next) busy |= c->busy;
    pthread_mutex_unlock(&s->lock);
    return busy;
}
