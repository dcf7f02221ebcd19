/* rounds.h - continuous batching as a loop over work. A round takes out the jobs that nobody waits for, lets waiting
 * ones into idle slots, and then runs either one step of all answers together or the next piece of one prompt.
 * Answers step again when prompts have had their share of the time (pauses.h). Where the next prompt's rows can go through the
 * model with a step, as many as leave it in time do, and nothing goes between two such steps. Where that prompt leaves room, rows of
 * those after it go along: so what comes before their rows is run first, and short prompts are let in together (admission.h). Where
 * rows would hold the step up or its sessions go through the model by themselves, the prompt goes apart, in pieces. */
#ifndef SERVE_ROUNDS_H
#define SERVE_ROUNDS_H

#include "pass_cost.h"
#include "slot.h"

/* Rows of prompts that a step takes along at most, where the configuration says nothing: on the CPU these. On a device none: a chunk
 * alone makes better use of it (docs/speed.md). */
enum { SERVE_PASS_ROWS = 128 };
size_t serve_rounds_prompt_rows(const serve_config *c, const sac_model *m);

/* What admission hangs on, as it was when nobody could be let in: it is asked again when something has changed, or a while later
 * (clients are forgotten). */
typedef struct serve_refusal {
    uint64_t n_added;
    size_t n_waiting;
    int n_idle, n_prompts;
    int64_t ns;
} serve_refusal;

struct serve_rounds {
    serve_server *server;
    sac_batch *batch;
    sac_batch_item *items;      /* [n_slots] of a step */
    serve_slot **slots;         /* [n_slots] of the items, or of the turns */
    serve_turn **turns;         /* [n_slots] of the prompts */
    uint64_t ticket;            /* of the job that came in last */
    serve_refusal refusal;      /* the last one; ns 0: there was none since somebody was let in */
    size_t most_prompt;         /* serve_rounds_prompt_rows */
    size_t tile;                /* a pass has so many rows or a multiple, steps counted, where nothing ends; 1: any number */
    int64_t stepped_ns, due_ns; /* when the last step ended, and how long after it the next one is due */
    serve_pass_cost cost;
};

/* Rows of steps in its batch: of every slot, and for guesses as many again, LEAST at least, where sessions draft. */
enum { SERVE_LEAST_GUESSES = 7 };
size_t serve_rounds_rows(const serve_config *c);

/* For as many slots as the server is configured for. To be closed, also after a failure. */
sac_status serve_rounds_open(serve_rounds **out, serve_server *s, sac_error *err);
void serve_rounds_close(serve_rounds *d); /* NULL is fine */

/* Waits until there is something to do; false when the server quits. */
bool serve_rounds_wait(serve_rounds *d);

void serve_rounds_run(serve_rounds *d);

#endif
