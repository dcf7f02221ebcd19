/* exchange.h - one HTTP request on its way through the front, and the replies to it. */
#ifndef SERVE_EXCHANGE_H
#define SERVE_EXCHANGE_H

#include "job.h"
#include "state.h"
#include "trace_context.h"

#include <jansson.h>
#include <microhttpd.h>

typedef struct serve_route serve_route;
typedef struct serve_upload serve_upload;
typedef struct serve_exchange serve_exchange;

/* An open connection. The front's thread makes and ends it; the watch reads it under the server's lock. */
struct serve_connection {
    serve_connection *next, *previous;
    int fd;
    uint64_t address;  /* of the client, see connections.h */
    int64_t idle_ns;   /* since when no whole request has come */
    size_t n_received; /* bytes of bodies since then: a long upload may take its time */
    bool busy;         /* a whole request has come and is being answered */
    bool dropped;      /* it was one too many, and is about to go */
    bool ended;        /* at the watch's last look the client had ended it, and all it sent was read */
};

/* One HTTP request; of the front's thread alone. */
struct serve_exchange {
    serve_server *server;
    struct MHD_Connection *connection;
    serve_connection *line; /* NULL without memory for it */
    int fd;
    const serve_route *route;
    serve_api api; /* whose errors are replied in its words, also where the request is not let in */
    char path[256];
    char method[12];
    int64_t arrived_ns;
    int status; /* of the reply; 0 = none yet */
    char allow[64]; /* the methods that the path takes, where that of the request is none of them */
    serve_problem problem;
    bool end_unknown;  /* where the request ends cannot be told: nothing is read behind it */
    int retry_after_s; /* of the reply, where its status has such a header; 0 = soon */
    serve_buffer body;
    size_t n_swallowed; /* of a body that is not wanted */
    serve_upload *upload;
    serve_job *job;
    serve_trace_context trace; /* of a request that is traced */
};

struct serve_route {
    const char *method, *path; /* a path that ends in '*' stands for all that begin so */
    bool open;                 /* needs no API key */
    bool takes_body, takes_upload;
    serve_api api;   /* whose errors are replied in its words */
    serve_task task; /* of a route without `run`, whose requests are jobs */
    enum MHD_Result (*run)(serve_exchange *x);
};

/* The methods that a path takes, "GET, OPTIONS". */
void serve_route_methods(const char *path, char *text, size_t room);

/* The route of a request; else NULL and *p filled (404, 405). */
const serve_route *serve_route_find(const char *method, const char *path, serve_problem *p);

/* ---- replies (http_reply.c) */

/* A header of the request, or NULL. */
const char *serve_exchange_header(const serve_exchange *x, const char *name);

/* Queues r with the headers that every reply has, and lets go of it. */
enum MHD_Result serve_reply_response(serve_exchange *x, struct MHD_Response *r, int status);
/* Queues a reply; `text` is freed with free() when it has been sent (NULL is "no memory"). */
enum MHD_Result serve_reply(serve_exchange *x, int status, const char *content_type, char *text, size_t n);
enum MHD_Result serve_reply_problem(serve_exchange *x, const serve_problem *p);
/* Takes the reference to j; NULL is "no memory". */
enum MHD_Result serve_reply_json(serve_exchange *x, int status, json_t *j);

#endif
