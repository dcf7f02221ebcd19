/* serve.h - an HTTP server with OpenAI's API over one model.
 *
 * The way of a request: the front (http/front.c, one epoll thread of libmicrohttpd) takes the body in and
 * suspends the connection; a preparer (scheduler/prepare.c) parses it, fetches and decodes its media; the
 * scheduler (scheduler/scheduler.c, the one thread that runs the model) answers it; the watch (http/watch.c)
 * ends what nobody waits for any more. The text goes into the job's buffer, from which the front sends. */
#ifndef SERVE_H
#define SERVE_H

#include "serve_config.h"

/* Serves until SIGTERM (or serve_stop), then lets the running answers end. Prints one line when it listens.
 * SAC_DEVICE: the device failed, which stays; what ran was ended first. */
sac_status serve_run(const sac_model *model, const serve_config *config, sac_error *err);

/* Asks the running server to end; from any thread or a signal handler. */
void serve_stop(void);

#endif
