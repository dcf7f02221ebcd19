/* scheduler.h - the one thread that runs the model. */
#ifndef SERVE_SCHEDULER_H
#define SERVE_SCHEDULER_H

#include "state.h"

sac_status serve_scheduler_open(serve_server *s, sac_error *err); /* takes the sessions' memory */
void serve_scheduler_close(serve_server *s);

/* The thread's body; server is a serve_server. Returns when the server quits. */
void *serve_scheduler_run(void *server);

/* Share of the slots' rows that answers hold, 0 to 1, or of the pages that slots have; from any thread. */
double serve_scheduler_cache_use(serve_server *s);

#endif
