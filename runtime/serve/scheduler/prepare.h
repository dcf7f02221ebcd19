/* prepare.h - the threads that make a request ready: JSON, media. None of it needs the model to run. */
#ifndef SERVE_PREPARE_H
#define SERVE_PREPARE_H

/* A thread's body; server is a serve_server. Returns when the server quits. */
void *serve_prepare_run(void *server);

#endif
