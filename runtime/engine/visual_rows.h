/* visual_rows.h - the rows of a prompt that show a picture or a video. They are hidden rows of the decoder: in
 * its type, where it runs. On a device the tower's rows are written there by the device itself and never visit
 * the host; rows that the host's tower made are rounded and copied up. A medium's rows stand in blocks
 * (media.h), with text in between. */
#ifndef SAC_ENGINE_VISUAL_ROWS_H
#define SAC_ENGINE_VISUAL_ROWS_H

#include "media.h"

/* What becomes of visual tokens: rows of hidden states, and what the decoder adds to them after its first layers
 * (sac_decoder_deep), without data where it adds nothing. Where both lie in one block, the latter stands behind. */
typedef struct sac_visual_mat {
    sac_mat rows, deep;
} sac_visual_mat;

/* The rows of visual token `token` and those after it in the same block, at most n. */
sac_visual_mat sac_visual_run(const sac_session *s, const sac_media *m, int64_t token, int64_t n);

/* Tokens [first, first + n) of a buffer for `capacity` of them. */
sac_visual_mat sac_visual_buffer(const sac_merger *m, void *buffer, sac_dtype t, int64_t capacity,
                                 int64_t first, int64_t n);

/* The host's rows to `to`, which is of the decoder's type and in its memory. `rows` is overwritten. */
sac_status sac_visual_write(const sac_session *s, sac_mat to, float *rows);

/* Rows of the host in f32, overwritten, or those of a device in the decoder's type, which follow one another, to visual
 * tokens from `token` on of m. */
sac_status sac_visual_write_tokens(const sac_session *s, const sac_media *m, int64_t token,
                                   sac_visual_mat from);
sac_status sac_visual_copy_tokens(const sac_session *s, const sac_media *m, int64_t token,
                                  sac_visual_mat from);

/* All rows of m out of the cache, if it has them, or into it. Afterwards nothing is on its way. */
sac_status sac_visual_recall(const sac_session *s, const sac_media *m, bool *found, sac_error *err);
sac_status sac_visual_keep(const sac_session *s, const sac_media *m, sac_error *err);

#endif
