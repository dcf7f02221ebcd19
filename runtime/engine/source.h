/* source.h - what a picture or video is made of: a hash of its bytes, and what was measured of it, from
 * memory where this model has met it before. */
#ifndef SAC_ENGINE_SOURCE_H
#define SAC_ENGINE_SOURCE_H

#include "media.h"

/* The hash of the item's bytes, when it is known or the bytes are at hand; a file that was not met before is
 * not opened. m->has_digest tells. */
sac_status sac_source_find(sac_session *s, sac_media *m, sac_error *err);

/* The same, reading files where need be. */
sac_status sac_source_read(sac_session *s, sac_media *m, sac_error *err);

/* Size and, of videos, the frames that this request chooses; false when that was not measured before. */
bool sac_source_recall(sac_session *s, sac_media *m, const sac_frame_request *request, int *width,
                       int *height);
void sac_source_remember(sac_session *s, const sac_media *m, const sac_frame_request *request, int width,
                         int height);

/* Whether the files are still those that were hashed. */
bool sac_source_is_unchanged(const sac_media *m);

/* Key of the item's embeddings: its bytes, what is sampled from them, and how they are encoded. */
sac_status sac_source_key(sac_session *s, sac_media *m, sac_error *err);

#endif
