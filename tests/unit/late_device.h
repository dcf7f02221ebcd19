/* late_device.h - a device for tests where there is none, whose work is done as late as its order allows:
 * when somebody waits for it. A missing wait is seen as wrong numbers. Memory is the host's. */
#ifndef TEST_LATE_DEVICE_H
#define TEST_LATE_DEVICE_H

#include "ops.h"

#include <stdlib.h>
#include <string.h>

enum { LATE_STREAMS = 2, LATE_JOBS = 4096, LATE_ARGS = 512 };

typedef struct late_job {
    void (*run)(struct late_job *job);
    union {
        max_align_t align;
        uint8_t args[LATE_ARGS];
    };
} late_job;
typedef struct late_queue {
    late_job *jobs; /* [LATE_JOBS] */
    int n, done;
} late_queue;
typedef struct late_mark { /* a stream's order, up to a job */
    late_queue *queue;
    int n;
} late_mark;

static late_queue late_queues[LATE_STREAMS];
static int late_n_streams, late_n_copies;
static int late_prompt;      /* so many streams, the first opened, do everything at once */
static bool late_ops_refuse; /* there are no kernels */
static sac_ops late_real;
static const sac_stream *late_host; /* that ops really run with */

static inline void late_run(late_queue *q, int n) {
    while (q->done < n) {
        late_job *job = &q->jobs[q->done++];
        job->run(job);
    }
}
static inline late_queue *late_of(const sac_stream *s) {
    return s->native;
}
static inline sac_status late_add(const sac_stream *s, void (*run)(late_job *), const void *args, size_t n) {
    late_queue *q = late_of(s);
    if (q->n == LATE_JOBS || n > LATE_ARGS) return SAC_INTERNAL;
    q->jobs[q->n].run = run;
    memcpy(q->jobs[q->n++].args, args, n);
    if (q - late_queues < late_prompt) late_run(q, q->n);
    return SAC_OK;
}

#define X(op)                                                                                                \
    static inline void late_run_##op(late_job *job) {                                                        \
        sac_##op##_args a;                                                                                   \
        memcpy(&a, job->args, sizeof a);                                                                     \
        if (late_real.op(late_host, &a) != SAC_OK) abort();                                                  \
    }                                                                                                        \
    static inline sac_status late_##op(const sac_stream *s, const sac_##op##_args *a) {                      \
        return late_ops_refuse ? SAC_UNSUPPORTED : late_add(s, late_run_##op, a, sizeof *a);                 \
    }
SAC_OPS(X)
#undef X

static inline sac_ops late_ops(const sac_ops *ops) {
    sac_ops t = late_real = *ops;
#define X(op) t.op = late_##op;
    SAC_OPS(X)
#undef X
    return t;
}

typedef struct late_move {
    void *to;
    const void *from;
    size_t n_bytes;
} late_move;
static inline void late_run_move(late_job *job) {
    late_move m;
    memcpy(&m, job->args, sizeof m);
    if (m.from)
        memcpy(m.to, m.from, m.n_bytes);
    else
        memset(m.to, 0, m.n_bytes);
}
static inline sac_status late_copy(const sac_stream *s, void *to, const void *from, size_t n_bytes) {
    late_n_copies++;
    return late_add(s, late_run_move, &(late_move){to, from, n_bytes}, sizeof(late_move));
}
static inline sac_status late_zero(const sac_stream *s, void *to, size_t n_bytes) {
    return late_copy(s, to, NULL, n_bytes);
}

static inline sac_status late_alloc(const sac_device *d, size_t n_bytes, void **out, sac_error *err) {
    (void)d, (void)err;
    *out = aligned_alloc(256, (n_bytes + 256) / 256 * 256);
    return *out ? SAC_OK : SAC_NO_MEMORY;
}
static inline void late_free(const sac_device *d, void *p) {
    (void)d;
    free(p);
}
static inline sac_status late_stream_open(const sac_device *d, sac_stream *s, size_t n, sac_error *err) {
    (void)n, (void)err;
    late_queue *q = &late_queues[late_n_streams++];
    *q = (late_queue){.jobs = calloc(LATE_JOBS, sizeof *q->jobs)};
    *s = (sac_stream){.native = q, .device = d};
    return SAC_OK;
}
static inline sac_status late_stream_sync(const sac_stream *s, sac_error *err) {
    (void)err;
    late_run(late_of(s), late_of(s)->n);
    late_of(s)->n = late_of(s)->done = 0;
    return SAC_OK;
}
static inline void late_stream_close(sac_stream *s) {
    if (!s->native) return;
    late_stream_sync(s, NULL);
    free(late_of(s)->jobs);
    late_n_streams--;
    *s = (sac_stream){0};
}

static inline void late_reach(const late_mark *m) {
    late_run(m->queue, m->n < m->queue->n ? m->n : m->queue->n);
}
static inline sac_status late_event_create(const sac_device *d, sac_event *e, sac_error *err) {
    (void)d, (void)err;
    *e = (sac_event){.native = calloc(1, sizeof(late_mark))};
    return SAC_OK;
}
static inline sac_status late_event_record(const sac_stream *s, sac_event *e) {
    *(late_mark *)e->native = (late_mark){late_of(s), late_of(s)->n};
    return SAC_OK;
}
static inline void late_run_wait(late_job *job) {
    late_mark m;
    memcpy(&m, job->args, sizeof m);
    late_reach(&m);
}
static inline sac_status late_event_wait(const sac_stream *s, const sac_event *e) {
    return late_add(s, late_run_wait, e->native, sizeof(late_mark));
}
static inline sac_status late_event_sync(const sac_event *e) {
    late_reach(e->native);
    return SAC_OK;
}
static inline void late_event_free(sac_event *e) {
    free(e->native);
    *e = (sac_event){0};
}

/* Jobs that nobody has waited for. */
static inline int late_in_flight(void) {
    int n = 0;
    for (int i = 0; i < LATE_STREAMS; i++) n += late_queues[i].n - late_queues[i].done;
    return n;
}

static inline sac_device late_device(void) {
    sac_device d;
    sac_cpu_device_open(&d);
    d.alloc = d.host_alloc = late_alloc;
    d.free = d.host_free = late_free;
    d.upload = d.download = d.copy = late_copy;
    d.zero = late_zero;
    d.stream_open = late_stream_open;
    d.stream_sync = late_stream_sync;
    d.stream_close = late_stream_close;
    d.event_create = late_event_create;
    d.event_record = late_event_record;
    d.event_wait = late_event_wait;
    d.event_sync = late_event_sync;
    d.event_free = late_event_free;
    return d;
}

#endif
