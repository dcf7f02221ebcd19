/* slot_methods.h - a slot's session for the attention methods that a request chooses: it is made anew for them,
 * as long as it takes no more memory, of the machine and of a device, than was planned for a slot. */
#ifndef SERVE_SLOT_METHODS_H
#define SERVE_SLOT_METHODS_H

#include "methods.h"
#include "state.h"

/* What a slot may take, for a session of the server's own methods that takes as planned. */
void serve_methods_room(serve_server *s, const sac_memory_report *plan);

/* Does a session of them fit a slot? */
bool serve_methods_check(const serve_server *s, const serve_methods *m, serve_problem *p);

/* That of such a plan. */
bool serve_methods_fit(const serve_server *s, const sac_memory_report *plan, serve_problem *p);

/* The server's configuration with these lines on top; borrowed from both. */
sac_session_config serve_methods_config(const serve_server *s, const serve_methods *m);

/* A slot's session of them, which shares the server's beginnings. The lines are borrowed for as long as it lives.
 * On failure *out is NULL. */
sac_status serve_methods_session(serve_server *s, const serve_methods *m, sac_session **out, sac_error *err);

#endif
