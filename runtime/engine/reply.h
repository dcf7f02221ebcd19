/* reply.h - the text of an answer as it grows: what may be sent, and the texts that end it. */
#ifndef SAC_ENGINE_REPLY_H
#define SAC_ENGINE_REPLY_H

#include "controls.h"
#include "saccade/saccade.h"

/* The answer between sac_session_begin and sac_session_end. */
typedef struct sac_reply {
    bool running, done;
    bool busy;    /* inside begin or a step: not to be stepped from a callback */
    bool pending; /* the last token has not been run yet */
    bool chosen;  /* the next one is known: `choice`, or -1 for none */
    int32_t choice;
    int n_whole;  /* steps that bring all logits, whatever the choice needs of them */
    int64_t limit; /* tokens */
    bool ignore_eos, logprobs;
    int n_top;
    char
        *owned; /* one block: stop texts, their pointers and the bias of the caller's sac_sampling; or NULL */
    sac_controls controls;    /* a copy */
    const char *const *stops; /* [n_stops] */
    size_t n_stops;
    const char *const *format_stops; /* the chat's own, NULL-terminated or NULL */
    char *text;                      /* the session's, NUL-terminated at all times */
    size_t capacity, n_bytes, n_sent;
    int64_t start_ns;
    sac_result result;
} sac_reply;

typedef enum sac_outcome {
    SAC_GO_ON,
    SAC_STOPPED, /* a stop text came; the text ends before it */
    SAC_FULL,    /* no room for more text */
    SAC_LEFT,    /* the receiver wants no more */
} sac_outcome;

/* Appends what the detokenizer completed and sends what no stop text can still grow from. */
sac_outcome sac_reply_append(sac_reply *r, const sac_events *e, const char *text, size_t n_bytes);

/* Sends the rest; false when the receiver wants no more. */
bool sac_reply_send(sac_reply *r, const sac_events *e);

#endif
