/* front.h - the HTTP side: connections, bodies, replies. */
#ifndef SERVE_FRONT_H
#define SERVE_FRONT_H

#include "server.h"

#include <microhttpd.h>

typedef struct serve_route serve_route;
typedef struct serve_upload serve_upload;

/* One HTTP request. All of it belongs to the front's thread, but for what the watch reads under the server's
 * lock: the list, fd, begun_ns. */
struct serve_exchange {
    serve_server *server;
    struct MHD_Connection *connection;
    serve_exchange *next, *previous;
    int fd;
    int64_t begun_ns;
    bool receiving; /* in the list: its body has not come whole */
    bool sends_body;
    const serve_route *route;
    char path[256];
    serve_problem problem;
    serve_buffer body;
    size_t n_swallowed; /* of a body that is not wanted */
    serve_upload *upload;
    serve_job *job;
};

struct serve_route {
    const char *method, *path; /* a path that ends in '*' stands for all that begin so */
    bool open;                 /* needs no API key */
    bool takes_body, takes_upload, is_chat;
    enum MHD_Result (*run)(serve_exchange *x);
};

/* The route of a request; else NULL and *p filled (404, 405). */
const serve_route *serve_route_find(const char *method, const char *path, serve_problem *p);

sac_status serve_front_open(serve_server *s, sac_error *err);
void serve_front_close(serve_server *s);

/* Queues a reply; `text` is freed with free() when it has been sent (NULL is "no memory"). */
enum MHD_Result serve_reply(serve_exchange *x, int status, const char *content_type, char *text, size_t n);
enum MHD_Result serve_reply_problem(serve_exchange *x, const serve_problem *p);
/* Takes the reference to j; NULL is "no memory". */
struct json_t;
enum MHD_Result serve_reply_json(serve_exchange *x, int status, struct json_t *j);

#endif
