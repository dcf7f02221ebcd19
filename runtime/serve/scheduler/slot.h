/* slot.h - a session and the answer that it is making. All of it belongs to the scheduler's thread. */
#ifndef SERVE_SLOT_H
#define SERVE_SLOT_H

#include "answer.h"
#include "constraint.h"
#include "places.h"
#include "slot_methods.h"
#include "state.h"
#include "trace.h"
#include "turns.h"

struct serve_slot {
    serve_server *server;
    sac_session *session;  /* NULL when it could not be made anew */
    serve_methods methods; /* that the session was made for */
    serve_job *job;        /* NULL = idle */
    bool decoding;         /* the prompt is run, the answer is being made */
    int choice;            /* of the request's, that is being made */
    serve_turn turn;       /* while the prompt is run */
    bool lacks_pages;      /* waits for memory of its rows (preemption.h): nothing of it is run */
    bool goes_apart;       /* the job's prompts: with their rows a step would come late */
    serve_answer answer;
    serve_constraint *constraint; /* NULL = any text */
    serve_places *places;         /* NULL = not asked for */
    struct serve_prompt_scores
        *scores;       /* while the prompt's log probabilities are made; NULL = they are not */
    int64_t n_entries; /* log probabilities of prompts that the request was given */
    double n_behind;   /* about how many tokens the request's later prompts have */
    float *hidden;     /* [hidden] that each prompt leaves; NULL = nothing is kept of them */
    bool scored;       /* the prompt's rows are from there */
    sac_events events;
    serve_trace *trace; /* of what the session holds; NULL = nothing is known of it */
    int64_t n_tokens;   /* of the choice */
    int64_t n_all;      /* of all choices */
    int64_t first_ns, last_ns;
    const int32_t *stop_ids;
    size_t n_stop_ids;
    atomic_llong n_rows; /* in the cache while answering; for metrics */
};

/* Takes a job of whose prompt about n_left tokens are to be run; nothing is run yet. The tickets of jobs rise. */
void serve_slot_begin(serve_slot *slot, serve_job *j, uint64_t ticket, double n_left);

/* Whether it holds a prompt that is not run to its end yet. */
static inline bool serve_slot_has_prompt(const serve_slot *slot) {
    return slot->job && !slot->decoding;
}

/* The next piece of the prompt, of about so many seconds at most as far as it can be cut; afterwards the slot may decode, or be idle: the job has failed. */
void serve_slot_run_piece(serve_slot *slot, double seconds);

/* Whether its next piece is one of those before the first rows (text looked up, a medium opened or through the tower). */
bool serve_slot_is_opening(const serve_slot *slot);

/* How many of the prompt's next rows, at most `most`, a step of others may take along (sac_batch_step_with). */
size_t serve_slot_pass_rows(const serve_slot *slot, size_t most);
/* That step came back. */
void serve_slot_passed(serve_slot *slot, const sac_batch_prompt *p);

/* One step came back: goes on, begins the prompt again for the next choice, or ends the job. */
void serve_slot_stepped(serve_slot *slot, const sac_batch_item *item);

/* Ends its job without an answer, or with what there is of a stream. */
void serve_slot_give_up(serve_slot *slot, sac_status st, const sac_error *err);

/* Ends the job of a client that has left, or whose time is up, wherever it is. */
void serve_slot_drop_cancelled(serve_slot *slot);

#endif
