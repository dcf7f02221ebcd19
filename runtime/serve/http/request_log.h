/* request_log.h - a file with a line of JSON for each request, when it has ended: who asked what, and what it took. No text of requests or
 * answers, and no key, gets there. */
#ifndef SERVE_REQUEST_LOG_H
#define SERVE_REQUEST_LOG_H

#include "exchange.h"

/* Opens the configured file at its end; nothing without one. IO says why it cannot be written. */
sac_status serve_request_log_open(serve_server *s, sac_error *err);
void serve_request_log_close(serve_server *s);

/* The front has done with a request; `left`: its client had gone before the reply was whole. */
void serve_request_log_write(const serve_exchange *x, bool left);

#endif
