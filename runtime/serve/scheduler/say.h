/* say.h - answers that are long in their last words (log probabilities, vectors: tens of megabytes of JSON) are put into them by a thread
 * of its own, so that nobody's step waits for it. */
#ifndef SERVE_SAY_H
#define SERVE_SAY_H

#include "state.h"

typedef struct serve_answer serve_answer;

/* Takes an answer over whose choices are whole, to finish and free it, and to end its job: it is not to be looked at any more. False:
 * no memory, and nothing was done. */
bool serve_say(serve_job *j, const serve_answer *a);

/* The thread's body; server is a serve_server. Returns when the server quits and nothing is left to say. */
void *serve_say_run(void *server);

#endif
