#define _GNU_SOURCE
#include "connections.h"
#include "clock.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

uint64_t serve_connection_address(const serve_server *s, struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *i =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *a = i ? i->client_addr : NULL;
    if (a && a->sa_family == AF_INET)
        return serve_client_hash(s->seed, &((const struct sockaddr_in *)(const void *)a)->sin_addr, 4);
    if (a && a->sa_family == AF_INET6)
        return serve_client_hash(s->seed, &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, 8);
    return 0;
}

void serve_connection_write_address(struct MHD_Connection *connection, char *text, size_t room) {
    const union MHD_ConnectionInfo *i =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *a = i ? i->client_addr : NULL;
    const void *from = NULL;
    if (a && a->sa_family == AF_INET) from = &((const struct sockaddr_in *)(const void *)a)->sin_addr;
    if (a && a->sa_family == AF_INET6) from = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
    if (!from || !inet_ntop(a->sa_family, from, text, (socklen_t)room)) *text = 0;
}

/* ---------------------------------------------------------------- too many */

enum { N_BUCKETS = 256 };

static size_t bucket_of(const serve_connection *c) {
    return c->address % N_BUCKETS;
}

/* NULL: all are busy. Under the server's lock. */
static serve_connection *find_victim(const serve_server *s) {
    size_t n[N_BUCKETS] = {0};
    serve_connection *victim = NULL;
    for (serve_connection *c = s->connections; c; c = c->next) n[bucket_of(c)]++;
    for (serve_connection *c = s->connections; c; c = c->next) {
        if (c->busy || c->dropped) continue;
        size_t mine = n[bucket_of(c)], its = victim ? n[bucket_of(victim)] : 0;
        if (!victim || mine > its || (mine == its && c->idle_ns < victim->idle_ns)) victim = c;
    }
    return victim;
}

/* libmicrohttpd reads the end and closes it. Under the server's lock. */
static void drop_one(serve_server *s) {
    serve_connection *c = find_victim(s);
    if (!c) return;
    c->dropped = true;
    s->n_connections--;
    shutdown(c->fd, SHUT_RDWR);
}

/* ---------------------------------------------------------------- coming and going */

static void add(serve_server *s, serve_connection *c) {
    pthread_mutex_lock(&s->lock);
    c->next = s->connections;
    if (c->next) c->next->previous = c;
    s->connections = c;
    if (++s->n_connections > (size_t)s->config->max_connections) drop_one(s);
    pthread_mutex_unlock(&s->lock);
}

static void take_out(serve_server *s, serve_connection *c) {
    pthread_mutex_lock(&s->lock);
    *(c->previous ? &c->previous->next : &s->connections) = c->next;
    if (c->next) c->next->previous = c->previous;
    if (!c->dropped) s->n_connections--;
    pthread_mutex_unlock(&s->lock);
}

void serve_connection_notify(void *cls, struct MHD_Connection *connection, void **context,
                             enum MHD_ConnectionNotificationCode code) {
    serve_connection *c = *context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *i =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *context = c = calloc(1, sizeof *c);
        if (!c) return; /* then nobody looks after it but libmicrohttpd */
        *c = (serve_connection){.fd = i ? i->connect_fd : -1,
                                .address = serve_connection_address(cls, connection),
                                .idle_ns = sac_now_ns()};
        add(cls, c);
    } else if (c) {
        take_out(cls, c);
        free(c);
        *context = NULL;
    }
}
