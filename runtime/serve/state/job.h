/* job.h - one answer on its way, shared by the connection that waits for it and the thread that makes it. */
#ifndef SERVE_JOB_H
#define SERVE_JOB_H

#include "byte_buffer.h"
#include "problem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

typedef struct serve_server serve_server;
typedef struct serve_job serve_job;
typedef struct serve_request serve_request;
typedef struct serve_trace serve_trace;

typedef enum serve_task {
    SERVE_ANSWER,
    SERVE_TOKENIZE, /* the model's tokens of a text or a conversation; nothing is run */
    SERVE_DETOKENIZE,
    SERVE_COUNT_TOKENS /* of a conversation, in the API's own words */
} serve_task;

/* What an answer took. */
typedef struct serve_tally {
    int64_t n_prompt, n_cached, n_answer, n_media; /* 0 of a prompt: no answer came to its end */
    int64_t started_ns, first_ns;                  /* when it began to run, and its first token; 0 = never */
    char reason[20];                               /* why it ended, as OpenAI's finish_reason */
    int64_t last_ns;                               /* its last token; 0 = none */
    int max_tokens, n_choices;                     /* as they were asked for, with the next two */
    double temperature, top_p;
} serve_tally;

struct serve_job {
    serve_server *server;
    atomic_int n_owners;
    serve_job *next, *previous; /* of the server's list, under the server's lock */
    serve_job *queue_next;      /* of the queue that it waits in, with the next two */
    double queue_clock;
    uint64_t queue_number;
    char id[48];                /* "chatcmpl-..." */
    int64_t created;            /* Unix time */
    uint64_t client;            /* who asks: a hash of API key or address, for fairness */
    int64_t priority;           /* as the request asks; lower is earlier */
    int64_t arrived_ns, started_ns;
    serve_buffer body;
    serve_request *request; /* of the preparer, then of the scheduler, which free it; NULL before and after */
    serve_trace *trace;     /* of its conversation, likewise; NULL also without memory */
    serve_api api;
    serve_task task;
    const char *
        model; /* the name that the answer goes by: the model's or an adapter's; lives as long as the server */
    atomic_bool cancelled; /* nobody waits any more, its time is up, or the server ends */
    atomic_bool timed_out;

    pthread_mutex_t lock; /* for what follows */
    bool stream;          /* as the request asks */
    double timeout_s;     /* as the request asks; 0 = the server's */
    void *connection;     /* NULL once it is closed */
    void (*resume)(void *connection);
    int fd;
    bool suspended;
    bool left;             /* the client has gone: nothing is sent to it any more */
    bool begun;            /* headers of a stream may go out */
    bool done;             /* nothing more will be added */
    serve_buffer out;      /* JSON, or what of the stream has not been sent */
    serve_problem problem; /* status 0 = none */
    serve_tally tally;
    int64_t output_ns;     /* when something was added last */
};

serve_job *serve_job_create(serve_server *s, serve_api api);
void serve_job_keep(serve_job *j);
void serve_job_release(serve_job *j); /* the last owner's frees it */

/* The answer, or a piece of a stream. */
void serve_job_output(serve_job *j, const char *text, size_t n);
/* The end; problem may be NULL. A stream that has begun gets its last event: [DONE] where the API has it, or the problem. */
void serve_job_finish(serve_job *j, const serve_problem *problem);
/* The client is gone, or the time is up (problem). */
void serve_job_cancel(serve_job *j);
/* Lets the front look at the job again; under its lock. */
void serve_job_wake(serve_job *j);

#endif
