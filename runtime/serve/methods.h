/* methods.h - attention methods that a request chooses, where the server lets it: the slot's session is made
 * anew for them, as long as it takes no more memory, here and of a device, than was planned for a slot. */
#ifndef SERVE_METHODS_H
#define SERVE_METHODS_H

#include "server.h"

/* Lines as in sac_session_config; empty = the server's. */
typedef struct serve_methods {
    char prefill[400], decode[400], kv[400], rope[100], reduce[100];
} serve_methods;

/* Reads {"prefill": "...", ...} of a request's "saccade" object. */
bool serve_methods_parse(serve_methods *m, const serve_config *c, const json_t *own, serve_problem *p);

/* What a slot may take, for a session of the server's own methods that takes as planned. */
void serve_methods_room(serve_server *s, const sac_memory_report *plan);

/* Does a session of them fit a slot? */
bool serve_methods_check(const serve_server *s, const serve_methods *m, serve_problem *p);

/* That of such a plan. */
bool serve_methods_fit(const serve_server *s, const sac_memory_report *plan, serve_problem *p);

bool serve_methods_equal(const serve_methods *a, const serve_methods *b);
/* The server's configuration with these lines on top; borrowed from both. */
sac_session_config serve_methods_config(const serve_server *s, const serve_methods *m);

#endif
