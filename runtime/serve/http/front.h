/* front.h - the HTTP side of the server: one thread of libmicrohttpd that takes requests in and sends answers. */
#ifndef SERVE_FRONT_H
#define SERVE_FRONT_H

#include "state.h"

/* Listens from here on. */
sac_status serve_front_open(serve_server *s, sac_error *err);
void serve_front_close(serve_server *s);

/* The port that it listens on; 0 when that cannot be told. */
unsigned serve_front_port(const serve_server *s);
/* Is a request that has come being answered still? From any thread. */
bool serve_front_is_busy(serve_server *s);

#endif
