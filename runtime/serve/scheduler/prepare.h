/* prepare.h - the threads that make a request ready: some read its JSON, others get and decode its media, so that a
 * request without media waits for nobody's. None of it needs the model to run. */
#ifndef SERVE_PREPARE_H
#define SERVE_PREPARE_H

/* Bodies of threads; server is a serve_server. They return when the server quits. */
void *serve_parse_run(void *server);
void *serve_decode_run(void *server);

#endif
