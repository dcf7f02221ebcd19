/* late_device.h - a device for tests where there is none, whose work is done as late as its order allows: when
 * somebody waits for it. A missing wait is seen as wrong numbers. Its memory is closed to everybody but its own
 * ops and copies, so that a look at it from the host ends the test. Memory of host_alloc is pinned: read and
 * written when a copy is made; other memory of the host is read when a copy is asked for, and a copy to it is
 * waited for, as CUDA does it. */
#ifndef TEST_LATE_DEVICE_H
#define TEST_LATE_DEVICE_H

#include "ops.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LATE_STREAMS = 8, LATE_JOBS = 4096, LATE_ARGS = 2048, LATE_BLOCKS = 32 };

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
typedef struct late_block {
    uint8_t *at;
    size_t n_bytes;
} late_block;

static late_queue late_queues[LATE_STREAMS];
static late_block late_closed[LATE_BLOCKS], late_pinned[LATE_BLOCKS];
static int late_n_streams, late_n_first; /* open ones; opened to go first */
static int late_n_copies;                /* within the device */
static size_t late_n_downloaded;         /* bytes */
static int late_n_allocated, late_n_freed;
static size_t late_left; /* bytes of memory; 0: not known */
static int late_prompt;  /* so many streams, the first opened, do everything at once */
static bool late_has_no_attention;
static bool late_holds_largest; /* that op, those beside it and copies to the host are done when somebody waits, however prompt a stream is */
static int late_fail_at; /* this op or copy from now fails, and all after it; 0: none */
static bool late_failed;
static sac_ops late_real;
static const sac_stream *late_host; /* that ops really run with */

/* Jobs that nobody has waited for. */
static inline int late_in_flight(void) {
    int n = 0;
    for (int i = 0; i < LATE_STREAMS; i++) n += late_queues[i].n - late_queues[i].done;
    return n;
}

/* ---------------------------------------------------------------- memory */

static inline void late_let_in(bool open) {
    for (int i = 0; i < LATE_BLOCKS; i++)
        if (late_closed[i].at)
            mprotect(late_closed[i].at, late_closed[i].n_bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}
static inline late_block *late_find(late_block *list, const void *p) {
    for (int i = 0; i < LATE_BLOCKS; i++) {
        size_t from_start = (size_t)((const uint8_t *)p - list[i].at);
        if (p ? list[i].at && from_start < list[i].n_bytes : !list[i].at) return &list[i];
    }
    return NULL;
}
static inline sac_status late_alloc(const sac_device *d, size_t n_bytes, void **out, sac_error *err) {
    (void)d, (void)err;
    late_block *b = late_find(late_closed, NULL);
    n_bytes = (n_bytes + 4096) / 4096 * 4096;
    *out = b ? mmap(NULL, n_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    if (*out == MAP_FAILED) return SAC_NO_MEMORY;
    *b = (late_block){*out, n_bytes};
    late_n_allocated++;
    return SAC_OK;
}
static inline void late_free(const sac_device *d, void *p) {
    (void)d;
    late_block *b = p ? late_find(late_closed, p) : NULL;
    if (!b) return;
    late_n_freed++;
    munmap(b->at, b->n_bytes);
    *b = (late_block){0};
}
static inline sac_status late_host_alloc(const sac_device *d, size_t n_bytes, void **out, sac_error *err) {
    (void)d, (void)err;
    late_block *b = late_find(late_pinned, NULL);
    *out = b ? calloc(1, n_bytes + 1) : NULL;
    if (!*out) return SAC_NO_MEMORY;
    *b = (late_block){*out, n_bytes + 1};
    return SAC_OK;
}
static inline void late_host_free(const sac_device *d, void *p) {
    (void)d;
    late_block *b = p ? late_find(late_pinned, p) : NULL;
    if (b && late_in_flight()) abort(); /* it may be read still */
    if (b) *b = (late_block){0};
    free(p);
}
static inline size_t late_memory_left(const sac_device *d) {
    (void)d;
    return late_left;
}

/* ---------------------------------------------------------------- jobs */

static inline void late_run_jobs(late_queue *q, int n) {
    while (q->done < n) {
        late_job *job = &q->jobs[q->done++];
        job->run(job);
    }
}
static inline void late_run(late_queue *q, int n) {
    if (q->done >= n) return;
    late_let_in(true);
    late_run_jobs(q, n);
    late_let_in(false);
}
static inline late_queue *late_of(const sac_stream *s) {
    return s->native;
}
static inline sac_status late_add(const sac_stream *s, void (*run)(late_job *), const void *args, size_t n) {
    late_queue *q = late_of(s);
    if (late_fail_at && --late_fail_at == 0) late_failed = true;
    if (late_failed) return SAC_DEVICE;
    if (q->n == LATE_JOBS) { /* a device is not always late */
        late_run(q, q->n);
        q->n = q->done = 0;
    }
    q->jobs[q->n].run = run;
    memcpy(q->jobs[q->n++].args, args, n);
    if (q - late_queues < late_prompt) late_run(q, q->n);
    return SAC_OK;
}

static inline bool late_is_of_choice(const char *op) {
    return !strcmp(op, "largest") || !strcmp(op, "edit_scores") || !strcmp(op, "weigh_scores");
}

/* What a call's lists are lies on the caller's stack, and a device reads it when it is asked. */
static inline void late_own_lists(const char *op, void *args) {
    static sac_row_lists own[LATE_STREAMS * LATE_JOBS];
    static size_t n;
    sac_attention_args *a = args;
    if (strcmp(op, "attention") || !a->lists) return;
    own[n % (LATE_STREAMS * LATE_JOBS)] = *a->lists;
    a->lists = &own[n++ % (LATE_STREAMS * LATE_JOBS)];
}

#define X(op)                                                                                                \
    static inline void late_run_##op(late_job *job) {                                                        \
        sac_##op##_args a;                                                                                   \
        memcpy(&a, job->args, sizeof a);                                                                     \
        if (late_real.op(late_host, &a) != SAC_OK) abort();                                                  \
    }                                                                                                        \
    static inline sac_status late_##op(const sac_stream *s, const sac_##op##_args *a) {                      \
        if (late_has_no_attention && !strcmp(#op, "attention")) return SAC_UNSUPPORTED;                      \
        static_assert(sizeof *a <= LATE_ARGS, "");                                                           \
        const int prompt = late_prompt;                                                                      \
        if (late_holds_largest && late_is_of_choice(#op)) late_prompt = 0;                                   \
        sac_##op##_args own = *a;                                                                            \
        late_own_lists(#op, &own);                                                                           \
        const sac_status st = late_add(s, late_run_##op, &own, sizeof own);                                  \
        late_prompt = prompt;                                                                                \
        return st;                                                                                           \
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

/* ---------------------------------------------------------------- copies */

typedef struct late_move {
    void *to;
    const void *from;
    size_t n_bytes;
    void *own; /* from, where it was put aside */
} late_move;
static inline void late_run_move(late_job *job) {
    late_move m;
    memcpy(&m, job->args, sizeof m);
    if (m.from)
        memcpy(m.to, m.from, m.n_bytes);
    else
        memset(m.to, 0, m.n_bytes);
    free(m.own);
}
static inline sac_status late_order(const sac_stream *s, void *to, const void *from, size_t n_bytes) {
    return late_add(s, late_run_move, &(late_move){to, from, n_bytes, NULL}, sizeof(late_move));
}
static inline sac_status late_copy(const sac_stream *s, void *to, const void *from, size_t n_bytes) {
    late_n_copies++;
    return late_order(s, to, from, n_bytes);
}
static inline sac_status late_zero(const sac_stream *s, void *to, size_t n_bytes) {
    return late_order(s, to, NULL, n_bytes);
}
static inline sac_status late_upload(const sac_stream *s, void *to, const void *from, size_t n_bytes) {
    if (late_find(late_pinned, from)) return late_order(s, to, from, n_bytes);
    late_move m = {to, NULL, n_bytes, malloc(n_bytes + 1)};
    memcpy(m.own, from, n_bytes);
    m.from = m.own;
    sac_status st = late_add(s, late_run_move, &m, sizeof m);
    if (st != SAC_OK) free(m.own);
    return st;
}
static inline sac_status late_download(const sac_stream *s, void *to, const void *from, size_t n_bytes) {
    const int prompt = late_prompt;
    late_n_downloaded += n_bytes;
    if (late_holds_largest) late_prompt = 0;
    const sac_status st = late_order(s, to, from, n_bytes);
    late_prompt = prompt;
    SAC_TRY(st);
    if (!late_find(late_pinned, to)) late_run(late_of(s), late_of(s)->n);
    return SAC_OK;
}

/* ---------------------------------------------------------------- streams and events */

static inline sac_status late_use(const sac_device *d) {
    (void)d;
    return SAC_OK;
}
static inline sac_status late_stream_open(const sac_device *d, sac_stream *s, size_t n, sac_error *err) {
    (void)n, (void)err;
    late_queue *q = &late_queues[late_n_streams++];
    *q = (late_queue){.jobs = calloc(LATE_JOBS, sizeof *q->jobs)};
    *s = (sac_stream){.native = q, .device = d};
    return SAC_OK;
}
static inline sac_status late_stream_open_first(const sac_device *d, sac_stream *s, size_t n,
                                                sac_error *err) {
    late_n_first++;
    return late_stream_open(d, s, n, err);
}
static inline sac_status late_stream_sync(const sac_stream *s, sac_error *err) {
    late_run(late_of(s), late_of(s)->n);
    late_of(s)->n = late_of(s)->done = 0;
    return late_failed ? sac_fail(err, SAC_DEVICE, "the late device is broken") : SAC_OK;
}
static inline void late_stream_close(sac_stream *s) {
    if (!s->native) return;
    late_stream_sync(s, NULL);
    free(late_of(s)->jobs);
    late_of(s)->jobs = NULL;
    while (late_n_streams > 0 && !late_queues[late_n_streams - 1].jobs) late_n_streams--;
    *s = (sac_stream){0};
}

static inline sac_status late_event_create(const sac_device *d, sac_event *e, sac_error *err) {
    (void)d, (void)err;
    *e = (sac_event){.native = calloc(1, sizeof(late_mark))};
    return SAC_OK;
}
static inline sac_status late_event_record(const sac_stream *s, sac_event *e) {
    *(late_mark *)e->native = (late_mark){late_of(s), late_of(s)->n};
    return late_failed ? SAC_DEVICE : SAC_OK;
}
static inline void late_run_wait(late_job *job) {
    late_mark m;
    memcpy(&m, job->args, sizeof m);
    if (m.queue) late_run_jobs(m.queue, m.n < m.queue->n ? m.n : m.queue->n);
}
static inline sac_status late_event_wait(const sac_stream *s, const sac_event *e) {
    return late_add(s, late_run_wait, e->native, sizeof(late_mark));
}
static inline sac_status late_event_sync(const sac_event *e) {
    const late_mark *m = e->native;
    if (m->queue) late_run(m->queue, m->n < m->queue->n ? m->n : m->queue->n);
    return late_failed ? SAC_DEVICE : SAC_OK;
}
static inline void late_event_free(sac_event *e) {
    free(e->native);
    *e = (sac_event){0};
}

static inline sac_device late_device(void) {
    return (sac_device){.kind = SAC_DEVICE_CUDA,
                        .n_processors = 1,
                        .name = "late device",
                        .alloc = late_alloc,
                        .free = late_free,
                        .host_alloc = late_host_alloc,
                        .host_free = late_host_free,
                        .memory_left = late_memory_left,
                        .use = late_use,
                        .upload = late_upload,
                        .download = late_download,
                        .copy = late_copy,
                        .zero = late_zero,
                        .stream_open = late_stream_open,
                        .stream_open_first = late_stream_open_first,
                        .stream_sync = late_stream_sync,
                        .stream_close = late_stream_close,
                        .event_create = late_event_create,
                        .event_record = late_event_record,
                        .event_wait = late_event_wait,
                        .event_sync = late_event_sync,
                        .event_free = late_event_free};
}

#endif
