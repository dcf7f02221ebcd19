/* watch.h - the thread that ends what nobody waits for any more. */
#ifndef SERVE_WATCH_H
#define SERVE_WATCH_H

/* The thread's body; server is a serve_server. Returns when the server quits. */
void *serve_watch_run(void *server);

#endif
