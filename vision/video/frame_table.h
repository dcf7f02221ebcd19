/* frame_table.h - when every frame of a video is shown, and where decoding may start.
 *
 * Times are in ticks of the stream's time base. Packets arrive in decoding order, frames are counted in the
 * order of presentation; frame k is the k-th smallest presentation time. 8 bytes a frame, so that an hour of
 * video at 30 frames a second costs less than a megabyte. */
#ifndef SAC_FRAME_TABLE_H
#define SAC_FRAME_TABLE_H

#include "status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct sac_key_frame {
    int64_t pts;
    int64_t seek_ts; /* what the container wants to be asked for */
} sac_key_frame;

typedef struct sac_frame_table {
    int64_t *pts; /* [n_frames], ascending after sac_frame_table_finish */
    int64_t n_frames;
    sac_key_frame *keys; /* [n_keys], ascending by pts after sac_frame_table_finish */
    int64_t n_keys;
    int64_t frame_capacity, key_capacity;
} sac_frame_table;

void sac_frame_table_free(sac_frame_table *t); /* a zeroed table is fine */
sac_status sac_frame_table_add(sac_frame_table *t, int64_t pts, sac_error *err);
sac_status sac_frame_table_add_key(sac_frame_table *t, int64_t pts, int64_t seek_ts, sac_error *err);

/* Sorts, and gives back spare room. False when two frames claim the same time: then times cannot tell frames
 * apart. */
bool sac_frame_table_finish(sac_frame_table *t);

/* Number of frames shown before pts: the index of pts where the table has it. */
int64_t sac_frame_table_rank(const sac_frame_table *t, int64_t pts);
bool sac_frame_table_has(const sac_frame_table *t, int64_t pts);

/* The last key frame shown at or before pts, as an index into keys; -1 = none. Frames shown before a key
 * frame but stored after it (open groups of pictures) need the group before, hence "shown". */
int64_t sac_frame_table_key_for(const sac_frame_table *t, int64_t pts);

/* Drops the frames in [from, to) that are not among shown[n_shown] (ascending). False, with the table
 * unchanged, when something was shown in that span that the table does not know. */
bool sac_frame_table_keep(sac_frame_table *t, int64_t from, int64_t to, const int64_t *shown,
                          int64_t n_shown);

/* Moves the key frames of one table to another that has none. */
void sac_frame_table_take_keys(sac_frame_table *to, sac_frame_table *from);

/* Mean and spread of the time between frames, in ticks; false for less than two frames. */
bool sac_frame_table_steps(const sac_frame_table *t, double *mean, int64_t *shortest, int64_t *longest);

#endif
