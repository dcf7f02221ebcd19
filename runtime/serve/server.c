#define _GNU_SOURCE
#include "server.h"
#include "clock.h"
#include "files.h"
#include "front.h"
#include "media.h"
#include "metrics.h"

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

void serve_config_default(serve_config *c) {
    *c = (serve_config){
        .host = "127.0.0.1",
        .port = 8000,
        .model_name = "model",
        .n_slots = 4,
        .n_queue = 256,
        .max_connections = 1024,
        .max_body_bytes = (size_t)256 << 20,
        .max_bodies_bytes = (size_t)1 << 30,
        .max_uploads_bytes = (size_t)16 << 30,
        .timeout_s = 600,
        .header_timeout_s = 30,
        .heartbeat_s = 10,
        .drain_s = 60,
        .max_media_bytes = (size_t)2 << 30,
        .max_pixels = 64 * 1000 * 1000,
        .max_frames = 1024,
        .max_media = 64,
        .max_duration_s = 24 * 3600,
        .decode_s = 60,
        .max_decoded_bytes = (size_t)1 << 30,
    };
    sac_session_config_default(&c->session);
    sac_sampling_default(&c->sampling);
}

/* ---------------------------------------------------------------- jobs */

void serve_server_stir(serve_server *s) {
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->stirred);
    pthread_mutex_unlock(&s->lock);
}

bool serve_server_take_body(serve_server *s, size_t n) {
    pthread_mutex_lock(&s->lock);
    bool fits = n <= s->config->max_bodies_bytes - s->bodies_bytes;
    if (fits) s->bodies_bytes += n;
    pthread_mutex_unlock(&s->lock);
    return fits;
}

void serve_server_return_body(serve_server *s, serve_buffer *body) {
    pthread_mutex_lock(&s->lock);
    s->bodies_bytes -= body->n;
    pthread_mutex_unlock(&s->lock);
    serve_buffer_free(body);
}

bool serve_server_admit(serve_server *s, serve_job *j, serve_problem *p) {
    bool ok = true;
    pthread_mutex_lock(&s->lock);
    size_t most = (size_t)s->config->n_queue + (size_t)s->config->n_slots;
    if (atomic_load(&s->draining) || atomic_load(&s->quitting))
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

/* ---------------------------------------------------------------- life */

/* Each connection, each upload and each picture in flight takes a descriptor. */
static void raise_descriptor_limit(const serve_config *c) {
    struct rlimit r;
    rlim_t wanted = (rlim_t)c->max_connections + 1024;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur >= wanted) return;
    r.rlim_cur = wanted < r.rlim_max ? wanted : r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
}

static sac_status start_thread(serve_server *s, pthread_t *thread, void *(*run)(void *), sac_error *err) {
    if (pthread_create(thread, NULL, run, s) != 0)
        return sac_fail(err, SAC_NO_MEMORY, "cannot start a thread of the server");
    s->n_threads++;
    return SAC_OK;
}

static sac_status start_threads(serve_server *s, sac_error *err) {
    for (int i = 0; i < SERVE_N_PREPARERS; i++)
        SAC_TRY(start_thread(s, &s->preparers[i], serve_prepare_run, err));
    SAC_TRY(start_thread(s, &s->scheduler, serve_scheduler_run, err));
    return start_thread(s, &s->watch, serve_watch_run, err);
}

static void join_threads(serve_server *s) {
    atomic_store(&s->quitting, true);
    serve_server_stir(s);
    for (int i = 0; i < s->n_threads; i++)
        pthread_join(i < SERVE_N_PREPARERS    ? s->preparers[i]
                     : i == SERVE_N_PREPARERS ? s->scheduler
                                              : s->watch,
                     NULL);
}

static sac_status open_parts(serve_server *s, sac_error *err) {
    SAC_TRY(serve_metrics_open(&s->metrics, s, err));
    SAC_TRY(serve_media_store_open(&s->media, s, err));
    if (s->config->upload_dir) SAC_TRY(serve_files_open(&s->files, s, err));
    SAC_TRY(serve_scheduler_open(s, err));
    SAC_TRY(start_threads(s, err));
    return serve_front_open(s, err);
}

static void close_parts(serve_server *s) {
    join_threads(s);
    serve_front_close(s);
    serve_scheduler_close(s);
    serve_media_store_close(s->media);
    serve_files_close(s->files);
    serve_metrics_close(s->metrics);
}

static void print_address(const serve_server *s) {
    const union MHD_DaemonInfo *i = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT);
    bool v6 = strchr(s->config->host, ':');
    fprintf(stderr, "saccade: listening on http://%s%s%s:%u with %d slots of %lld tokens (%.1f MiB)\n",
            v6 ? "[" : "", s->config->host, v6 ? "]" : "", i ? i->port : 0u, s->config->n_slots,
            (long long)s->n_ctx, (double)s->config->n_slots * (double)s->slot_bytes / (1 << 20));
    fflush(stderr);
}

static void wait_for_stop(void) {
    struct pollfd f = {.fd = atomic_load(&stop_fd), .events = POLLIN};
    while (poll(&f, 1, -1) < 1 && errno == EINTR) {
    }
}

/* Last bytes of the last answers leave; a client that does not read its own is not waited for. */
static void wait_for_replies(serve_server *s) {
    int64_t start = sac_now_ns();
    for (bool busy = true; busy && sac_seconds_since(start) < 2;) {
        busy = false;
        pthread_mutex_lock(&s->lock);
        for (serve_connection *c = s->connections; c; c = c->next) busy |= c->busy;
        pthread_mutex_unlock(&s->lock);
        if (busy) usleep(10000);
    }
}

/* Lets what runs come to its end, for a time; then cancels it, and waits for that. */
static void drain(serve_server *s) {
    atomic_store(&s->draining, true);
    int64_t start = sac_now_ns();
    bool cancelled = false;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        size_t n = s->n_jobs;
        if (n && !cancelled && sac_seconds_since(start) > s->config->drain_s) {
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

static void init_server(serve_server *s, const sac_model *model, const serve_config *config) {
    *s = (serve_server){.model = model, .config = config, .started = time(NULL)};
    sac_model_get_info(model, &s->info);
    atomic_init(&s->answers, false);
    atomic_init(&s->draining, false);
    atomic_init(&s->quitting, false);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->stirred, NULL);
}

static void catch_signals(void) {
    struct sigaction stop = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGXFSZ, &ignore, NULL); /* a write that fails says so itself */
}

sac_status serve_run(const sac_model *model, const serve_config *config, sac_error *err) {
    serve_server *s = malloc(sizeof *s);
    if (!s) return sac_fail(err, SAC_NO_MEMORY, "no memory for a server");
    init_server(s, model, config);
    if (atomic_load(&stop_fd) < 0) atomic_store(&stop_fd, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    catch_signals();
    raise_descriptor_limit(config);
    sac_status st = open_parts(s, err);
    if (st == SAC_OK) {
        print_address(s);
        wait_for_stop();
        drain(s);
    }
    close_parts(s);
    pthread_cond_destroy(&s->stirred);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return st;
}
