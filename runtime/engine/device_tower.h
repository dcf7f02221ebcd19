/* device_tower.h - batches of tiles through the tower on a device, while the host prepares the next. Their rows
 * stay on the device: the merger writes them in the decoder's type, where the prompt wants them. The host's patch
 * rows wait in two slots that take turns; what a batch needs on the device is there once, because the session's
 * stream runs one batch after the other:
 *
 *   device_stream:  upload, tower, merger -> done of slot 0 | upload, tower, merger -> done of slot 1 | ...
 *
 * From sac_tower_submit to sac_tower_wait a slot and its patch rows belong to the device. */
#ifndef SAC_ENGINE_DEVICE_TOWER_H
#define SAC_ENGINE_DEVICE_TOWER_H

#include "visual_rows.h"

/* Takes the device's buffers out of `arena` and a little of `host`, or measures: then nothing is written. `rows`:
 * the decoder's type. */
sac_status sac_device_vision_take(sac_device_vision *v, const sac_device_tower *t, const sac_vision_sizes *z,
                                  sac_dtype rows, const sac_stream *stream, sac_arena *arena, sac_arena *host,
                                  sac_error *err);
/* Pinned memory and events. Close also after a failure; nothing may be in flight. */
sac_status sac_device_vision_open(sac_device_vision *v, const sac_vision_sizes *z, const sac_device *d,
                                  sac_error *err);
void sac_device_vision_close(sac_device_vision *v, const sac_device *d);
/* Pinned memory beyond what stands in for the session's own patches. */
size_t sac_device_vision_host_bytes(const sac_vision_sizes *z);

/* n of the item's tiles, patch rows of the host, to `y` [n * tokens_per_tile][hidden] on the device, later.
 * UNSUPPORTED when the device has no kernels for it or there is no tower on it: then y is not written, and what
 * has begun reads nothing that is used again. After another failure sac_tower_drain. */
sac_status sac_tower_submit(sac_session *s, int slot, const sac_media *m, const uint8_t *patches, int n,
                            sac_visual_mat y, sac_error *err);
/* Until the slot's rows are where they were to go. */
sac_status sac_tower_wait(sac_session *s, int slot, sac_error *err);
/* Until nothing is in flight, whatever went wrong. */
void sac_tower_drain(sac_session *s);
/* Ops and copies answer without words: says what a failure of the device means. */
sac_status sac_tower_explain(sac_session *s, sac_status st, sac_error *err);

/* The tables of s->vision.blend for n tokens, for the frames of a video. */
sac_status sac_tower_send_blend(sac_session *s, int64_t n, sac_error *err);

/* A picture of which all tiles are through, as `from`: the prompt's rows [n] by s->vision.layout, or by
 * s->vision.blend. */
sac_status sac_tower_lay_out(sac_session *s, sac_visual_mat y, sac_visual_mat from, bool blends,
                             sac_error *err);

#endif
