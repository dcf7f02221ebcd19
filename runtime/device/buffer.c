#include "buffer.h"

void *sac_take_host(const sac_memory *m, size_t n_bytes) {
    return sac_arena_take(m->host, n_bytes);
}

void *sac_take_device(const sac_memory *m, size_t n_bytes) {
    return sac_arena_take(m->device, n_bytes);
}

sac_buffer sac_take_both(const sac_memory *m, size_t n_bytes) {
    void *host = sac_arena_take(m->host, n_bytes);
    return (sac_buffer){host, m->host == m->device ? host : sac_arena_take(m->device, n_bytes)};
}

sac_buffer sac_take_copy(const sac_memory *m, const void *host, size_t n_bytes) {
    void *same = (void *)(uintptr_t)host;
    return (sac_buffer){same, m->host == m->device ? same : sac_arena_take(m->device, n_bytes)};
}

sac_status sac_buffer_send(const sac_device *d, const sac_stream *s, sac_buffer b, size_t n_bytes) {
    return b.host == b.device ? SAC_OK : d->upload(s, b.device, b.host, n_bytes);
}

sac_status sac_buffer_fetch(const sac_device *d, const sac_stream *s, sac_buffer b, size_t n_bytes) {
    if (b.host == b.device) return SAC_OK;
    SAC_TRY(d->download(s, b.host, b.device, n_bytes));
    return d->stream_sync(s, NULL);
}
