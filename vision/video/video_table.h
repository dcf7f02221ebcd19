/* video_table.h - the frames of a video, before any is asked for. Opening reads the container through once and keeps the presentation
 * times. A packet is a frame nearly always; where it is not (two fields, leading pictures without their reference, files cut short) the
 * first and if need be the last frames are decoded and compared with the table, and a file that does not agree is decoded once to
 * count. */
#ifndef SAC_VIDEO_TABLE_H
#define SAC_VIDEO_TABLE_H

#include "frame_table.h"
#include "libav_input.h"
#include "video.h"

typedef struct sac_video_table {
    sac_frame_table table;
    bool by_count;    /* times do not tell frames apart: frames are counted from the start, without jumps */
    bool was_decoded; /* as a whole, to make the table */
    bool has_times;   /* else a frame's time is its index over fps */
} sac_video_table;

/* Of the whole input, which is somewhere else afterwards; *t is zeroed before, and its table freed by the caller, also after a failure.
 * BAD_FILE where there is no frame or a limit is passed. */
sac_status sac_video_table_build(sac_video_table *t, sac_libav_input *input, const sac_video_limits *limits, sac_error *err);
/* BAD_FILE, of a video without frames. */
sac_status sac_video_nothing_decodes(sac_error *err);

#endif
