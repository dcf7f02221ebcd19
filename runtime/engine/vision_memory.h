/* vision_memory.h - the tower's buffers: how large they are for a batch of tiles, and where they come from. */
#ifndef SAC_ENGINE_VISION_MEMORY_H
#define SAC_ENGINE_VISION_MEMORY_H

#include "engine.h"

/* What a session knows of them all the time: how much a picture and a batch may have. No buffers. */
sac_vision_state sac_vision_limits(const sac_model *m);

/* The buffers on the host, with or without the tower's own; measuring arenas plan them. */
sac_status sac_vision_take(sac_vision_state *v, const sac_model *m, bool with_tower, sac_arena *host, sac_error *err);

/* Those of a tower on the device, out of its memory and a little of the host's; pinned memory, events and a stream
 * besides. sac_device_vision_close also after a failure. */
sac_status sac_vision_take_device(sac_device_vision *v, const sac_model *m, const sac_stream *stream,
                                  sac_arena *device, sac_arena *host, sac_error *err);

/* What they take of the arenas, and pinned. */
size_t sac_vision_host_bytes(const sac_model *m, bool with_tower);
typedef struct sac_vision_loan {
    size_t device_bytes, host_bytes, pinned_bytes;
} sac_vision_loan;
sac_vision_loan sac_vision_device_bytes(const sac_model *m);

#endif
