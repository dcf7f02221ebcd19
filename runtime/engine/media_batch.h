/* media_batch.h - tiles of a picture or video through the tower, a batch at a time: how many go together, where they wait, and
 * where their rows are made. Of media_encode.c and media_join.c. */
#ifndef SAC_ENGINE_MEDIA_BATCH_H
#define SAC_ENGINE_MEDIA_BATCH_H

#include "media_encode.h"
#include "visual_rows.h"

/* Where a batch's rows go: rows of the decoder's, in its type, or the host's in f32. */
typedef struct sac_batch_rows {
    sac_visual_mat y;
    bool on_host;
} sac_batch_rows;


/* Where tiles wait for the tower. */
uint8_t *sac_media_slot_patches(const sac_media_work *w, int slot);

/* Tiles of this item that go into the tower's buffers, and those that it takes at a time. */
int sac_media_full_batch(const sac_media_work *w);
int sac_media_batch_tiles(const sac_media_work *w);
/* Whether a tile's rows have the same bits whatever tiles are beside it. */
bool sac_media_keeps_bits(const sac_media_work *w);

/* Rows [first, first + n) of the buffer between the tower and the prompt, on the host or, where the tower runs there, on a device. */
sac_batch_rows sac_media_buffer_rows(const sac_media_work *w, int64_t first, int64_t n);
/* Those of a video's next n tiles, which are the prompt's own where these follow one another. */
sac_batch_rows sac_media_frame_rows(const sac_media_work *w, int64_t first_tile, int n);

/* n tiles to the tower: in a slot of the device, to be waited for, or at once on the host; then nothing is in flight. */
sac_status sac_media_submit(sac_media_work *w, int slot, const uint8_t *patches, int n, sac_batch_rows to, sac_error *err);
sac_status sac_media_wait(sac_media_work *w, int slot, sac_error *err);

/* Finds the pictures behind a picture that go through the tower with it (media_join.c): w->n_joined. Those that the cache has
 * are among them, and done; the others are open then, which takes the patch rows of so many tiles. */
sac_status sac_media_join(sac_media_work *w, sac_error *err);
/* The patch rows of all that are not in the cache, *n tiles behind one another. */
const uint8_t *sac_media_joined_patches(const sac_media_work *w, int *n);

/* To the events of the call: tiles that are through, and frames or pictures that are done. */
void sac_media_tell_tiles(const sac_media_work *w, const uint8_t *patches, int64_t first_tile, int n);
void sac_media_tell_progress(const sac_media_work *w, int64_t done);

#endif
