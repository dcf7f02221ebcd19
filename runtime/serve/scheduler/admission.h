/* admission.h - which waiting job goes into an idle slot, and into which.
 *
 * While no prompt is being run, the next one by the queue's order: what has least left to be run, as far as that is fair
 * (queue.h). Otherwise only one that is short beside what is left of those (turns.h), or comes first by its priority: a longer one
 * would hold its slot without being run, and jobs of others that come later could no longer go before it. Or one that fits, with all
 * that are being run, into what the next step takes along: these are run at the same time. But not one that begins as such a prompt
 * does: it waits until it can take that one's rows over, where these are more than the step that it would be earlier is worth. (One
 * that is short does not wait for a beginning: it is through before the longer prompt is.) The last idle slot is for the first in line
 * alone. A client has as many slots as it may; that is one less than there are while others ask, too, as its answers may be
 * long. */
#ifndef SERVE_ADMISSION_H
#define SERVE_ADMISSION_H

#include "slot.h"

/* Prompts under way at the same time: each has one of the model's workspaces. A long one, one of less than half its
 * length that goes between its pieces, and one between those. */
enum { SERVE_PROMPTS_AT_ONCE = 3 };

typedef struct serve_admitted {
    serve_job *job;   /* NULL = none */
    serve_slot *slot; /* the idle one that holds most of its conversation */
    double n_left;    /* about how many tokens are to be run in it */
} serve_admitted;

typedef struct serve_next_pass {
    size_t n_rows;    /* of prompts that the next step may take along */
    double step_rows; /* so many take as long as a step (serve_pass_step_rows) */
} serve_next_pass;

/* Takes it out of the queue of jobs that are ready; under the server's lock. */
serve_admitted serve_admit(serve_server *s, const serve_next_pass *pass);

#endif
