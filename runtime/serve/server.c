#define _GNU_SOURCE
#include "clock.h"
#include "dialect.h"
#include "front.h"
#include "media_store.h"
#include "metrics.h"
#include "prepare.h"
#include "say.h"
#include "scheduler.h"
#include "serve.h"
#include "spans.h"
#include "state.h"
#include "uploads.h"
#include "watch.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/poll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* What ends the server: a descriptor, because a signal handler may write to one and to little else. It stays
 * open as long as the process: a signal may come at any time. */
static atomic_int stop_fd = -1;

void serve_stop(void) {
    uint64_t one = 1;
    int had = errno, fd = atomic_load(&stop_fd);
    if (fd >= 0) (void)!write(fd, &one, sizeof one);
    errno = had;
}

static void on_signal(int number) {
    (void)number;
    serve_stop();
}

/* ---------------------------------------------------------------- life */

/* Each connection, each upload and each picture in flight takes a descriptor. */
static void raise_descriptor_limit(const serve_config *c) {
    struct rlimit r;
    rlim_t wanted = (rlim_t)c->max_connections + 1024;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur >= wanted) return;
    r.rlim_cur = wanted < r.rlim_max ? wanted : r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
    if (r.rlim_cur < wanted)
        fprintf(stderr,
                "saccade: %llu descriptors may be open (ulimit -n), %llu are wanted for %d connections: give "
                "fewer "
                "--connections, or clients will wait\n",
                (unsigned long long)r.rlim_cur, (unsigned long long)wanted, c->max_connections);
}

static sac_status start_thread(serve_server *s, void *(*run)(void *), sac_error *err) {
    assert((size_t)s->n_threads < sizeof s->threads / sizeof *s->threads);
    if (pthread_create(&s->threads[s->n_threads], NULL, run, s) != 0)
        return sac_fail(err, SAC_NO_MEMORY, "cannot start a thread of the server");
    s->n_threads++;
    return SAC_OK;
}

static sac_status start_threads(serve_server *s, sac_error *err) {
    int n_decoders = serve_n_decoders();
    for (int i = 0; i < SERVE_N_PARSERS; i++) SAC_TRY(start_thread(s, serve_parse_run, err));
    for (int i = 0; i < n_decoders; i++) SAC_TRY(start_thread(s, serve_decode_run, err));
    SAC_TRY(start_thread(s, serve_scheduler_run, err));
    SAC_TRY(start_thread(s, serve_say_run, err));
    return start_thread(s, serve_watch_run, err);
}

static void join_threads(serve_server *s) {
    atomic_store(&s->quitting, true);
    serve_server_stir(s);
    for (int i = 0; i < s->n_threads; i++) pthread_join(s->threads[i], NULL);
}

static sac_status open_parts(serve_server *s, sac_error *err) {
    SAC_TRY(serve_metrics_open(&s->metrics, err));
    if (s->config->otlp_traces_endpoint) SAC_TRY(serve_spans_open(&s->spans, s->config->otlp_traces_endpoint, s->metrics, err));
    SAC_TRY(serve_media_store_open(&s->media, s, err));
    if (s->config->upload_dir) SAC_TRY(serve_uploads_open(&s->uploads, s->config, err));
    SAC_TRY(serve_scheduler_open(s, err));
    SAC_TRY(start_threads(s, err));
    return serve_front_open(s, err);
}

static void close_parts(serve_server *s) {
    join_threads(s);
    serve_front_close(s);
    serve_spans_close(s->spans);
    serve_scheduler_close(s);
    serve_media_store_close(s->media);
    serve_uploads_close(s->uploads);
    serve_metrics_close(s->metrics);
}

static void print_address(const serve_server *s) {
    bool v6 = strchr(s->config->host, ':');
    fprintf(stderr, "saccade: listening on http://%s%s%s:%u with %d slots of %lld tokens (%.1f MiB)\n",
            v6 ? "[" : "", s->config->host, v6 ? "]" : "", serve_front_port(s), s->config->n_slots,
            (long long)s->n_ctx,
            ((double)s->config->n_slots * (double)s->slot_bytes + (double)s->shared_bytes) / (1 << 20));
    fflush(stderr);
}

/* For a signal, or for a device that failed. */
static void wait_for_stop(const serve_server *s) {
    const int look_ms = 200;
    struct pollfd f = {.fd = atomic_load(&stop_fd), .events = POLLIN};
    while (!atomic_load(&s->broken)) {
        int n = poll(&f, 1, look_ms);
        if (n > 0 || (n < 0 && errno != EINTR)) return;
    }
}

/* Last bytes of the last answers leave; a client that does not read its own is not waited for. */
static void wait_for_replies(serve_server *s) {
    int64_t start = sac_now_ns();
    for (bool busy = true; busy && sac_seconds_since(start) < 2;) {
        busy = serve_front_is_busy(s);
        if (busy) usleep(10000);
    }
}

/* Whether another signal has come since the last one was seen. */
static bool was_told_again(void) {
    uint64_t n;
    return read(atomic_load(&stop_fd), &n, sizeof n) == (ssize_t)sizeof n;
}

/* Lets what runs come to its end, for a time, or until a second signal comes; then cancels it, and waits for that. */
static void drain(serve_server *s) {
    atomic_store(&s->draining, true);
    int64_t start = sac_now_ns();
    bool cancelled = false, hurry = false;
    was_told_again(); /* the first signal */
    for (;;) {
        hurry = hurry || was_told_again();
        pthread_mutex_lock(&s->lock);
        size_t n = s->n_jobs;
        if (n && !cancelled && (hurry || sac_seconds_since(start) > s->config->drain_s)) {
            for (serve_job *j = s->jobs; j; j = j->next) atomic_store(&j->cancelled, true);
            pthread_cond_broadcast(&s->stirred);
            cancelled = true;
        }
        pthread_mutex_unlock(&s->lock);
        if (n == 0) break;
        usleep(20000);
    }
    wait_for_replies(s);
}

static void catch_signals(void) {
    struct sigaction stop = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGXFSZ, &ignore, NULL); /* a write that fails says so itself */
}

sac_status serve_run(const sac_model *model, const serve_config *given, sac_error *err) {
    serve_dialect dialect;
    SAC_TRY(serve_dialect_find(&dialect, model, given->tool_parser, given->reasoning_parser, err));
    serve_config own = *given, *config = &own;
    own.dialect = &dialect;
    serve_server *s = malloc(sizeof *s);
    if (!s) return sac_fail(err, SAC_NO_MEMORY, "no memory for a server");
    serve_server_init(s, model, config);
    if (atomic_load(&stop_fd) < 0) atomic_store(&stop_fd, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    catch_signals();
    raise_descriptor_limit(config);
    sac_status st = open_parts(s, err);
    if (st == SAC_OK) {
        print_address(s);
        wait_for_stop(s);
        drain(s);
    }
    close_parts(s);
    if (st == SAC_OK && atomic_load(&s->broken)) st = sac_fail(err, SAC_DEVICE, "%s", s->failure.text);
    serve_server_destroy(s);
    free(s);
    return st;
}
