/* closed_device.h - a device for tests where there is none: memory that only ops and the device's own copies
 * may touch (it is closed to everybody else), and the CPU's ops behind it. */
#ifndef TEST_CLOSED_DEVICE_H
#define TEST_CLOSED_DEVICE_H

#include "ops.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef CLOSED_LOG2 /* a test may have more */
#define CLOSED_LOG2 26
#endif
enum { CLOSED_BYTES = 1 << CLOSED_LOG2 };

static uint8_t *closed_region;
static sac_ops closed_real; /* what the guarded ops call */

static inline bool closed_open(void) {
    closed_region = mmap(NULL, CLOSED_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return closed_region != MAP_FAILED;
}
static inline void closed_let_in(bool open) {
    mprotect(closed_region, CLOSED_BYTES, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}
/* Zeros everywhere. The pages are given back: opening and closing costs time by those that a test has touched. */
static inline void closed_clear(void) {
    madvise(closed_region, CLOSED_BYTES, MADV_DONTNEED);
}

/* The device that the thread's ops go to: as on a card, use() and copies say which. */
static _Thread_local const sac_device *closed_used;
static inline sac_status closed_use(const sac_device *d) {
    closed_used = d;
    return SAC_OK;
}

/* Ops and copies that go well until one fails; below 0: all. What is queued behind a failure fails on a card as
 * well: the caller ends it. */
static int64_t closed_n_good = -1;
static inline bool closed_fails(void) {
    return closed_n_good >= 0 && closed_n_good-- == 0;
}

#define X(op)                                                                                                \
    static inline sac_status closed_##op(const sac_stream *s, const sac_##op##_args *a) {                    \
        if (closed_fails()) return SAC_DEVICE;                                                               \
        if (s->device && s->device != closed_used) return SAC_DEVICE;                                        \
        closed_let_in(true);                                                                                 \
        sac_status st = closed_real.op(s, a);                                                                \
        closed_let_in(false);                                                                                \
        return st;                                                                                           \
    }
SAC_OPS(X)
#undef X

static inline sac_ops closed_ops(const sac_ops *ops) {
    sac_ops guarded = closed_real = *ops;
#define X(op) guarded.op = closed_##op;
    SAC_OPS(X)
#undef X
    guarded.fuses = true;
    return guarded;
}

static inline sac_status closed_move(const sac_stream *s, void *to, const void *from, size_t n_bytes) {
    closed_used = s->device;
    if (closed_fails()) return SAC_DEVICE;
    closed_let_in(true);
    memcpy(to, from, n_bytes);
    closed_let_in(false);
    return SAC_OK;
}
static int64_t closed_n_downloads;
static inline sac_status closed_download(const sac_stream *s, void *to, const void *from, size_t n_bytes) {
    closed_n_downloads++;
    return closed_move(s, to, from, n_bytes);
}
static inline sac_status closed_zero(const sac_stream *s, void *to, size_t n_bytes) {
    (void)s;
    closed_let_in(true);
    memset(to, 0, n_bytes);
    closed_let_in(false);
    return SAC_OK;
}
static inline sac_status closed_sync(const sac_stream *s, sac_error *err) {
    (void)s, (void)err;
    return SAC_OK;
}

/* Of the host, open to all. */
static inline sac_status closed_host_alloc(const sac_device *d, size_t n_bytes, void **out, sac_error *err) {
    (void)d, (void)err;
    *out = calloc(1, n_bytes);
    return *out ? SAC_OK : SAC_NO_MEMORY;
}
static inline void closed_host_free(const sac_device *d, void *p) {
    (void)d;
    free(p);
}

static const sac_device closed_device = {.kind = SAC_DEVICE_CUDA,
                                         .name = "closed memory",
                                         .host_alloc = closed_host_alloc,
                                         .host_free = closed_host_free,
                                         .use = closed_use,
                                         .upload = closed_move,
                                         .download = closed_download,
                                         .copy = closed_move,
                                         .zero = closed_zero,
                                         .stream_sync = closed_sync};

#endif
