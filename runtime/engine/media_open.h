/* media_open.h - one item of a conversation's media: from bytes to sizes, tiles and frames. */
#ifndef SAC_ENGINE_MEDIA_OPEN_H
#define SAC_ENGINE_MEDIA_OPEN_H

#include "media.h"

/* Opens the item, chooses its frames and counts its tokens. room: tokens of the context that a video may
 * take. */
sac_status sac_media_measure(sac_session *s, sac_media *m, int64_t room, sac_error *err);

/* Opens what was measured from memory; it must be what it was. */
sac_status sac_media_reopen(sac_session *s, sac_media *m, sac_error *err);

/* Pixels and file are let go. */
void sac_media_close_source(sac_media *m);

/* What one frame costs; it does not depend on its size: every family makes one tile of it. */
sac_status sac_media_plan_frame(sac_session *s, int width, int height, int64_t n_frames,
                                sac_visual_plan *plan, sac_error *err);

sac_reduce_picture sac_media_tiling(const sac_visual_plan *p);

#endif
