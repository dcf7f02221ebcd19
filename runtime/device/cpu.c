#include "clock.h"
#include "device.h"

#include <stdlib.h>
#include <string.h>

#define ALIGN 256

size_t sac_stream_bytes(int n_threads, size_t shared_scratch_bytes) {
    return sac_arena_block_bytes((size_t)n_threads * SAC_THREAD_SCRATCH_BYTES) +
           sac_arena_block_bytes(shared_scratch_bytes);
}

sac_status sac_stream_init(sac_stream *s, sac_pool *pool, sac_arena *arena, size_t shared_scratch_bytes,
                           sac_error *err) {
    *s = (sac_stream){.pool = pool, .shared_scratch_bytes = shared_scratch_bytes};
    s->thread_scratch = sac_arena_take(arena, (size_t)sac_pool_n_threads(pool) * SAC_THREAD_SCRATCH_BYTES);
    s->shared_scratch = sac_arena_take(arena, shared_scratch_bytes);
    if (!s->thread_scratch || !s->shared_scratch)
        return sac_fail(err, SAC_INTERNAL, "the memory plan leaves no room for op scratch");
    return SAC_OK;
}

static sac_status cpu_alloc(const sac_device *d, size_t n_bytes, void **out, sac_error *err) {
    (void)d;
    size_t n;
    *out = sac_add_size(n_bytes, ALIGN, &n) ? aligned_alloc(ALIGN, n / ALIGN * ALIGN) : NULL;
    return *out ? SAC_OK : sac_fail(err, SAC_NO_MEMORY, "no memory for %zu bytes", n_bytes);
}
static void cpu_free(const sac_device *d, void *p) {
    (void)d;
    free(p);
}
static size_t cpu_memory_left(const sac_device *d) {
    (void)d;
    return 0;
}
static sac_status cpu_use(const sac_device *d) {
    (void)d;
    return SAC_OK;
}

static sac_status cpu_copy(const sac_stream *s, void *to, const void *from, size_t n_bytes) {
    (void)s;
    if (n_bytes) memmove(to, from, n_bytes);
    return SAC_OK;
}
static sac_status cpu_zero(const sac_stream *s, void *to, size_t n_bytes) {
    (void)s;
    if (n_bytes) memset(to, 0, n_bytes);
    return SAC_OK;
}

static sac_status cpu_stream_open(const sac_device *d, sac_stream *s, size_t scratch_bytes, sac_error *err) {
    void *scratch;
    SAC_TRY(cpu_alloc(d, scratch_bytes, &scratch, err));
    *s = (sac_stream){.shared_scratch = scratch, .shared_scratch_bytes = scratch_bytes, .device = d};
    return SAC_OK;
}
static sac_status cpu_stream_sync(const sac_stream *s, sac_error *err) {
    (void)s;
    (void)err;
    return SAC_OK;
}
static void cpu_stream_close(sac_stream *s) {
    free(s->shared_scratch);
    *s = (sac_stream){0};
}

static sac_status cpu_event_create(const sac_device *d, sac_event *e, sac_error *err) {
    (void)d;
    (void)err;
    *e = (sac_event){0};
    return SAC_OK;
}
static sac_status cpu_event_record(const sac_stream *s, sac_event *e) {
    (void)s;
    e->t_ns = sac_now_ns();
    return SAC_OK;
}
static sac_status cpu_event_wait(const sac_stream *s, const sac_event *e) {
    (void)s;
    (void)e;
    return SAC_OK;
}
static sac_status cpu_event_sync(const sac_event *e) {
    (void)e;
    return SAC_OK;
}
static sac_status cpu_event_elapsed(const sac_event *from, const sac_event *to, double *milliseconds) {
    *milliseconds = (double)(to->t_ns - from->t_ns) * 1e-6;
    return SAC_OK;
}
static void cpu_event_free(sac_event *e) {
    *e = (sac_event){0};
}

void sac_cpu_device_open(sac_device *d) {
    *d = (sac_device){.kind = SAC_DEVICE_CPU,
                      .n_processors = 1,
                      .name = "CPU",
                      .alloc = cpu_alloc,
                      .free = cpu_free,
                      .host_alloc = cpu_alloc,
                      .host_free = cpu_free,
                      .memory_left = cpu_memory_left,
                      .use = cpu_use,
                      .upload = cpu_copy,
                      .download = cpu_copy,
                      .copy = cpu_copy,
                      .zero = cpu_zero,
                      .stream_open = cpu_stream_open,
                      .stream_open_first = cpu_stream_open,
                      .stream_sync = cpu_stream_sync,
                      .stream_close = cpu_stream_close,
                      .event_create = cpu_event_create,
                      .event_record = cpu_event_record,
                      .event_wait = cpu_event_wait,
                      .event_sync = cpu_event_sync,
                      .event_elapsed = cpu_event_elapsed,
                      .event_free = cpu_event_free};
}

sac_status sac_device_open(sac_device *d, sac_device_kind kind, int index, sac_error *err) {
    *d = (sac_device){0};
    switch (kind) {
    case SAC_DEVICE_CPU: sac_cpu_device_open(d); return SAC_OK;
    case SAC_DEVICE_CUDA:
#ifdef SAC_CUDA
        return sac_cuda_device_open(d, index, err);
#else
        (void)index;
        return sac_fail(err, SAC_UNSUPPORTED,
                        "this build has no CUDA backend: configure with -DSAC_CUDA=ON (it needs nvcc)");
#endif
    }
    return sac_fail(err, SAC_BAD_ARGUMENT, "no such kind of device: %d", (int)kind);
}
