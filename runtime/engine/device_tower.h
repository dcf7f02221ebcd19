/* device_tower.h - batches of tiles through the tower on a device, while the host prepares the next and rows
 * of the last are copied back. Two slots take turns; what a batch needs on the device in between is one,
 * because the session's stream runs them one after the other:
 *
 *   device_stream:  upload, tower, merger -> done | the next slot's ...
 *   copies:                                    after done, to the host -> copied
 *
 * The end of a large batch's tower and its merger go by stretches of tiles, and so do the copies.
 * From sac_tower_submit to sac_tower_wait a slot, its patch rows and where its embeddings go belong to the device. */
#ifndef SAC_ENGINE_DEVICE_TOWER_H
#define SAC_ENGINE_DEVICE_TOWER_H

#include "engine.h"

/* Takes the device's buffers out of `arena` and a little of `host`, or measures: then nothing is written. */
sac_status sac_device_vision_take(sac_device_vision *v, const sac_tower_config *c, const sac_vision_sizes *z,
                                  sac_dtype t, const sac_stream *stream, sac_arena *arena, sac_arena *host,
                                  sac_error *err);
/* Pinned memory, events and the stream of copies. Close also after a failure; nothing may be in flight. */
sac_status sac_device_vision_open(sac_device_vision *v, const sac_vision_sizes *z, const sac_device *d,
                                  sac_error *err);
void sac_device_vision_close(sac_device_vision *v, const sac_device *d);
/* Pinned memory beyond what stands in for the session's own patches and pooled. */
size_t sac_device_vision_host_bytes(const sac_vision_sizes *z);

/* n of the item's tiles, patch rows, to `pooled` [n * tokens_per_tile][hidden], later. UNSUPPORTED when the
 * device has no kernels for it or there is no tower on it: then nothing is in flight on device_stream. After
 * another failure sac_tower_drain. */
sac_status sac_tower_submit(sac_session *s, int slot, const sac_media *m, const uint8_t *patches, int n,
                            float *pooled, sac_error *err);
/* Until the slot's rows are where they were to go. */
sac_status sac_tower_wait(sac_session *s, int slot, sac_error *err);
/* Until nothing is in flight, whatever went wrong. */
void sac_tower_drain(sac_session *s);

#endif
