/* libav_input.h - containers and decoders of FFmpeg's libraries, behind plain C types. Only libav_*.c include
 * their headers; everything that is decided about frames is in video.c.
 *
 * Times are in ticks of the stream's time base, of a size that sums and differences cannot overflow. */
#ifndef SAC_LIBAV_INPUT_H
#define SAC_LIBAV_INPUT_H

#include "frame_pixels.h"
#include "libav_container.h"
#include "status.h"
#include "video.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct sac_libav_input sac_libav_input;
struct AVFrame;

/* How a step ended. */
typedef enum sac_step {
    SAC_STEP_DONE,
    SAC_STEP_END,       /* of the file, also where damage ends it early */
    SAC_STEP_LOST,      /* after a jump: the key frame that it was meant for did not come */
    SAC_STEP_NO_MEMORY, /* see sac_libav_no_memory */
} sac_step;

typedef struct sac_packet_head {
    int64_t n_bytes;
    int64_t pts;     /* when it is shown; 0 without has_time */
    int64_t seek_ts; /* what sac_libav_input_jump has to be told to come here */
    bool is_ours;    /* of the video stream; nothing else is set when not */
    bool has_time;
    bool is_key;   /* decoding may start here */
    bool is_shown; /* false for what is only referred to, or cut off by an edit list */
    bool is_whole; /* false when the file ends or is damaged within it */
} sac_packet_head;

/* Opens the container, the first video stream in it and its decoder. fd is taken over (also on failure), -1 =
 * bytes in memory, borrowed. */
sac_status sac_libav_input_open(sac_libav_input **out, int fd, const uint8_t *bytes, int64_t n_bytes,
                                const sac_video_limits *limits, sac_error *err);
void sac_libav_input_free(sac_libav_input *in); /* NULL is fine */

/* All but what only the frame table knows, after at least one frame was decoded. fps is the container's, 0 =
 * unknown. */
void sac_libav_input_describe(const sac_libav_input *in, sac_video_info *info, sac_turn *turn);
double sac_libav_input_seconds(const sac_libav_input *in, int64_t ticks);
int64_t sac_libav_input_bytes(const sac_libav_input *in);
bool sac_libav_input_is_cut(const sac_libav_input *in); /* damage has ended reading before the file's end */

/* Reads the next packet, not decoding it. Do not mix with decoding without a restart or a jump between. */
sac_step sac_libav_input_scan(sac_libav_input *in, sac_packet_head *head);

/* The next frame in order of presentation. Damaged packets cost their frames, nothing more. */
sac_step sac_libav_input_decode(sac_libav_input *in);

/* The frame that sac_libav_input_decode gave last, NULL before the first and after a jump; *has_time is false
 * when it does not say when it is shown. */
const struct AVFrame *sac_libav_input_newest(const sac_libav_input *in, int64_t *pts, bool *has_time);

/* A frame that no other refers to and that is not wanted need not be decoded; it may then not come out. NULL:
 * all come. */
typedef bool (*sac_wanted_fn)(void *ctx, int64_t pts);
void sac_libav_input_set_wanted(sac_libav_input *in, sac_wanted_fn wanted, void *ctx);

/* Drops what the decoder holds; a jump or a restart has to follow. */
void sac_libav_input_forget(sac_libav_input *in);
/* Continue at a key frame: decoding starts exactly with the packet shown at pts, or
 * ends with SAC_STEP_LOST. */
bool sac_libav_input_jump(sac_libav_input *in, int64_t pts, int64_t seek_ts);
/* Continue at the first packet, by opening the container anew: works for every format. */
sac_status sac_libav_input_restart(sac_libav_input *in, sac_error *err);

#endif
