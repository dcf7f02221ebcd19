/* visual_rows.h - the rows of a prompt that show a picture or a video. They are hidden rows of the decoder: in
 * its type, where it runs. On a device the tower's rows are written there by the device itself and never visit
 * the host; rows that the host's tower made are rounded and copied up. A medium's rows stand in blocks
 * (media.h), with text in between. */
#ifndef SAC_ENGINE_VISUAL_ROWS_H
#define SAC_ENGINE_VISUAL_ROWS_H

#include "media.h"

/* The rows of visual token `token` and those after it in the same block, at most n. */
sac_mat sac_visual_run(const sac_session *s, const sac_media *m, int64_t token, int64_t n);

/* The host's rows to `to`, which is of the decoder's type and in its memory. `rows` is overwritten. */
sac_status sac_visual_write(const sac_session *s, sac_mat to, float *rows);

/* Rows [n][to.cols] of the host, or those of a device in the decoder's type, to visual tokens [token, token + n)
 * of m. */
sac_status sac_visual_write_tokens(const sac_session *s, const sac_media *m, int64_t token, int64_t n,
                                   float *rows);
sac_status sac_visual_copy_tokens(const sac_session *s, const sac_media *m, int64_t token, int64_t n,
                                  const void *rows);

/* All rows of m out of the cache, if it has them, or into it. Afterwards nothing is on its way. */
sac_status sac_visual_recall(const sac_session *s, const sac_media *m, bool *found, sac_error *err);
sac_status sac_visual_keep(const sac_session *s, const sac_media *m, sac_error *err);

#endif
