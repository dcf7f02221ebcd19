/* watch.c - one thread that looks around a few times a second: clients that have left, requests whose time is
 * up, streams that have been silent, requests that take too long to arrive. A suspended connection is not
 * polled by libmicrohttpd, so nobody else would notice. */
#define _GNU_SOURCE
#include "watch.h"
#include "clock.h"
#include "exchange.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

static bool has_left(int fd) {
    struct pollfd f = {.fd = fd, .events = POLLRDHUP};
    return fd >= 0 && poll(&f, 1, 0) == 1 && (f.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

static void look_at(serve_server *s, serve_job *j, int64_t now) {
    pthread_mutex_lock(&j->lock);
    if (!j->done) {
        double age = (double)(now - j->arrived_ns) * 1e-9, silent = (double)(now - j->output_ns) * 1e-9;
        double limit = j->timeout_s > 0 ? j->timeout_s : s->config->timeout_s;
        j->left = !j->connection || has_left(j->fd);
        if (!j->left && age > limit) atomic_store(&j->timed_out, true);
        if (j->left || age > limit) {
            atomic_store(&j->cancelled, true);
            if (j->left) serve_job_wake(j); /* the front closes it */
        } else if (j->stream && silent > s->config->heartbeat_s) {
            serve_buffer_text(&j->out, ": ping\n\n");
            j->output_ns = now;
            j->begun = true;
            serve_job_wake(j);
        }
    }
    pthread_mutex_unlock(&j->lock);
}

/* Seconds for the next whole request to come: longer when much of it has come. */
static double patience(const serve_server *s, const serve_connection *c) {
    enum { SLOWEST_BYTES_A_SECOND = 65536 };
    return s->config->header_timeout_s + (double)c->n_received / SLOWEST_BYTES_A_SECOND;
}

/* Of a connection on which no whole request has come. libmicrohttpd overlooks an end that comes along with
 * the last bytes. The second look in a row decides: at the first, what was read may be a request whose reply
 * is still to come. */
static bool has_ended(serve_connection *c) {
    int n_unread = 0;
    bool ended = has_left(c->fd) && ioctl(c->fd, FIONREAD, &n_unread) == 0 && n_unread == 0, again = c->ended;
    c->ended = ended;
    return ended && again;
}

static void look_around(serve_server *s) {
    int64_t now = sac_now_ns();
    pthread_mutex_lock(&s->lock);
    for (serve_job *j = s->jobs; j; j = j->next) look_at(s, j, now);
    for (serve_connection *c = s->connections; c; c = c->next)
        if (!c->busy && (has_ended(c) || (double)(now - c->idle_ns) * 1e-9 > patience(s, c)))
            shutdown(c->fd, SHUT_RDWR);
    pthread_cond_broadcast(&s->stirred);
    pthread_mutex_unlock(&s->lock);
}

void *serve_watch_run(void *server) {
    serve_server *s = server;
    while (!atomic_load(&s->quitting)) {
        struct timespec t = {.tv_nsec = 100 * 1000 * 1000};
        nanosleep(&t, NULL);
        look_around(s);
    }
    return NULL;
}
