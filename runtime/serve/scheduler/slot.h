/* slot.h - a session and the answer that it is making. All of it belongs to the scheduler's thread. */
#ifndef SERVE_SLOT_H
#define SERVE_SLOT_H

#include "answer.h"
#include "constraint.h"
#include "places.h"
#include "slot_methods.h"
#include "state.h"
#include "trace.h"

struct serve_slot {
    serve_server *server;
    sac_session *session;  /* NULL when it could not be made anew */
    serve_methods methods; /* that the session was made for */
    serve_job *job;        /* NULL = idle */
    bool decoding;         /* the prompt is run */
    int choice;            /* of the request's, that is being made */
    bool again;            /* a choice is whole, another is to begin: serve_slot_again */
    serve_answer answer;
    serve_constraint *constraint; /* NULL = any text */
    serve_places *places;         /* NULL = not asked for */
    sac_events events;
    serve_trace trace; /* of what the session holds */
    uint64_t used;     /* ticket of its last job: who has waited longest is taken first */
    int64_t n_tokens;  /* of the choice */
    int64_t n_all;     /* of all choices */
    int64_t first_ns, last_ns;
    const int32_t *stop_ids;
    size_t n_stop_ids;
    atomic_llong n_rows; /* in the cache while answering; for metrics */
};

/* Runs the job's prompt; `yield` is called where other slots may step. False: the job is over already. */
bool serve_slot_begin(serve_slot *slot, serve_job *j, void (*yield)(void *ctx));
/* The same prompt for the next choice, where one is due: what the session may keep of it is not run again. */
void serve_slot_again(serve_slot *slot, void (*yield)(void *ctx));
/* One step came back: goes on, or ends the job. */
void serve_slot_stepped(serve_slot *slot, const sac_batch_item *item);
/* Ends the job of a client that has left, or whose time is up; false when it may go on. */
bool serve_slot_drop_cancelled(serve_slot *slot);

#endif
