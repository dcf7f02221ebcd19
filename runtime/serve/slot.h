/* slot.h - a session and the answer that it is making. All of it belongs to the scheduler's thread. */
#ifndef SERVE_SLOT_H
#define SERVE_SLOT_H

#include "answer.h"
#include "constraint.h"
#include "methods.h"
#include "places.h"
#include "server.h"

/* What a conversation is made of, part by part, to see how much of it a slot already holds. */
typedef struct serve_trace {
    uint64_t *hash; /* [n] each with all before it */
    double *weight; /* [n] about how many tokens */
    size_t n;
} serve_trace;

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

bool serve_trace_make(serve_trace *t, const serve_request *r);
void serve_trace_free(serve_trace *t);
/* About how many tokens two conversations share. */
double serve_trace_shared(const serve_trace *a, const serve_trace *b);

/* Runs the job's prompt; `yield` is called where other slots may step. False: the job is over already. */
bool serve_slot_begin(serve_slot *slot, serve_job *j, void (*yield)(void *ctx));
/* The same prompt for the next choice, where one is due: what the session may keep of it is not run again. */
void serve_slot_again(serve_slot *slot, void (*yield)(void *ctx));
/* One step came back: goes on, or ends the job. */
void serve_slot_stepped(serve_slot *slot, const sac_batch_item *item);
/* Ends the job of a client that has left, or whose time is up; false when it may go on. */
bool serve_slot_drop_cancelled(serve_slot *slot);

/* A job that ends without an answer. */
void serve_job_fail(serve_job *j, sac_status st, const sac_error *err);

#endif
