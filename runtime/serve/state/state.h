/* state.h - what the parts of the server share: the model, the jobs and their queues, the room for bodies. The
 * parts themselves are behind pointers, which only the folder that owns the type looks behind. */
#ifndef SERVE_STATE_H
#define SERVE_STATE_H

#include "client.h"
#include "queue.h"
#include "serve_config.h"
#include "status.h"

#include <pthread.h>
#include <stdatomic.h>

struct MHD_Daemon;
typedef struct serve_uploads serve_uploads;
typedef struct serve_media_store serve_media_store;
typedef struct serve_metrics serve_metrics;
typedef struct serve_slot serve_slot;
typedef struct serve_rounds serve_rounds;
typedef struct serve_tokens serve_tokens;
typedef struct serve_connection serve_connection;
typedef struct serve_saying serve_saying;
typedef struct serve_spans serve_spans;
typedef struct serve_kv_events serve_kv_events;

/* When a client has asked last. */
typedef struct serve_asker {
    uint64_t client;
    int64_t ns; /* 0 = never */
} serve_asker;

/* Requests that name media wait for those of others, and never those without. */
enum { SERVE_N_PARSERS = 2, SERVE_MOST_DECODERS = 16 };

/* Threads that get and decode media: one for each processor and each 8 GiB of the memory that may be used, at least 2 and at most
 * SERVE_MOST_DECODERS. Each has a child; of videos that are shared out there are as many more, less one, at most. */
int serve_n_decoders(void);

struct serve_server {
    const sac_model *model;
    sac_model_info info;
    const serve_config *config;
    int64_t n_ctx;
    int64_t started; /* Unix time */
    uint8_t seed[SERVE_SEED_BYTES]; /* of the numbers that clients are told apart by */
    /* what a request's methods may take for a slot's session, and of a device's memory besides */
    size_t slot_bytes, slot_device_bytes;
    size_t shared_bytes; /* of workspaces and the batch, whatever the number of slots */

    struct MHD_Daemon *daemon;
    serve_uploads *uploads; /* NULL = none are taken */
    serve_media_store *media;
    serve_metrics *metrics;
    serve_spans *spans;      /* on their way to a collector of traces; NULL = there is none */
    int request_log;         /* a descriptor; -1 = none is written; of the front's thread, with the next */
    bool request_log_failed; /* which was said */
    serve_slot *slots; /* [config->n_slots], of the scheduler */
    sac_beginnings *beginnings; /* that their sessions share; NULL = none */
    serve_kv_events *kv_events; /* what is kept of them, told to routers; NULL = it is not */
    serve_rounds *rounds;
    serve_tokens *tokens;

    atomic_bool answers;  /* the model has answered once */
    atomic_bool draining; /* no new work */
    atomic_bool quitting; /* threads end */
    atomic_bool broken;   /* the device failed, which stays: the server is to end */
    sac_error failure;    /* why; written before `broken`, by the first that sees it */

    pthread_mutex_t lock;
    pthread_cond_t stirred; /* something changed: a queue, a job cancelled, quitting */
    serve_job *jobs;        /* all alive, by next */
    size_t n_jobs;
    int64_t ended_ns; /* when a job ended last, or the server stopped being idle */
    double end_gap_s; /* between two ends, while there are jobs; 0 = none has ended yet */
    serve_queue intake, media_queue, ready; /* as they came, those whose media are to be decoded, to be run */
    size_t bodies_bytes;
    size_t n_running;
    serve_asker askers[2]; /* the client that asked last, and the last one before it that is another */
    serve_connection *connections;
    size_t n_connections; /* of those that are to stay */

    serve_saying *to_say; /* answers on their way into words, of the scheduler (say.h) */

    pthread_t threads[SERVE_N_PARSERS + SERVE_MOST_DECODERS + 3]; /* and the scheduler's, the sayer's and the watch's */
    int n_threads;                                             /* of those that were started */

    int n_fetched; /* fetched files that are held in memory now */
};

void serve_server_init(serve_server *s, const sac_model *model, const serve_config *config);
void serve_server_destroy(serve_server *s);

/* Wakes every thread that waits for something. */
void serve_server_stir(serve_server *s);

/* Takes n bytes of the room for bodies; false when there is none left now. */
bool serve_server_take_body(serve_server *s, size_t n);
void serve_server_return_room(serve_server *s, size_t n);
void serve_server_return_body(serve_server *s, serve_buffer *body); /* frees it, too */

/* Queues a job; false: *p says why not (429, 503). The job is then the caller's alone. */
bool serve_server_admit(serve_server *s, serve_job *j, serve_problem *p);
/* Seconds, 1 to 600, until one of n_own of the jobs under way has probably ended, all being alike: as ends have followed one
 * another lately, or as long as the last one is ago where that is longer. Under the lock. */
int serve_server_retry_after(const serve_server *s, size_t n_own);
/* Has another client than this one asked within the last minute? Under the lock. */
bool serve_server_has_others(const serve_server *s, uint64_t client);
/* The server is done with a job: off the list, and its answer ends (problem may be NULL). */
void serve_server_dismiss(serve_server *s, serve_job *j, const serve_problem *problem);

/* What a job failed of: where that is the device, no later one can succeed, and the server is broken. */
void serve_server_note_failure(serve_server *s, sac_status st, const sac_error *err);

#endif
