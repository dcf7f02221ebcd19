/* buffer.h - memory that the host and the ops share.
 *
 * On the CPU the two are one: a buffer's `host` and `device` are the same block, and sending and fetching do
 * nothing. On a GPU they are two blocks: ops follow `device`, everybody else `host`, and who has written one
 * of them sends or fetches before the other is read. So a program over buffers and ops need not ask where it
 * runs. Blocks are of a session's arenas, zeroed, and live as long. */
#ifndef SAC_BUFFER_H
#define SAC_BUFFER_H

#include "device.h"

typedef struct sac_buffer {
    void *host, *device;
} sac_buffer;

/* Where memory comes from: on the CPU the same arena twice. Measuring arenas plan it. */
typedef struct sac_memory {
    sac_arena *host, *device;
} sac_memory;

/* For the host alone, for ops alone, for both. */
void *sac_take_host(const sac_memory *m, size_t n_bytes);
void *sac_take_device(const sac_memory *m, size_t n_bytes);
sac_buffer sac_take_both(const sac_memory *m, size_t n_bytes);

/* For ops what the host has elsewhere: on the CPU that itself, on a GPU room for a copy, to be sent once. */
sac_buffer sac_take_copy(const sac_memory *m, const void *host, size_t n_bytes);

/* The buffer without its first n_bytes. */
static inline sac_buffer sac_buffer_from(sac_buffer b, size_t n_bytes) {
    return (sac_buffer){(char *)b.host + n_bytes, (char *)b.device + n_bytes};
}

/* What the host has written, to ops that follow in the stream; what ops have written, to the host, which
 * waits for it. d is the stream's device, NULL for the CPU. */
sac_status sac_buffer_send(const sac_device *d, const sac_stream *s, sac_buffer b, size_t n_bytes);
sac_status sac_buffer_fetch(const sac_device *d, const sac_stream *s, sac_buffer b, size_t n_bytes);

#endif
