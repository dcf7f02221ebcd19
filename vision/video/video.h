/* video.h - frames out of video files of unknown origin, streamed.
 *
 *   sac_video_open -> sac_video_info -> sac_video_plan (sampling.h) -> sac_video_begin, sac_video_next for
 *   each of the chosen frames, sac_video_end; or sac_video_read, which hands them to a callback.
 *
 * Frame k is the k-th frame that libavcodec shows, in order of presentation, from the first video stream that
 * is not a cover picture: the k-th frame of PyAV's container.decode(video=0). Times are PyAV's frame.time:
 * the presentation time in seconds on the file's own clock, which need not start at 0 (see start_s). Pixels
 * are 8-bit RGB at the source's size (pixels are taken as square, as PyAV, OpenCV and decord do).
 *
 * Only the given bytes are read: nested files, playlists and network addresses inside a container are never
 * followed. Builds without FFmpeg's libraries (SAC_VIDEO off) have every function here; each returns
 * UNSUPPORTED. */
#ifndef SAC_VIDEO_H
#define SAC_VIDEO_H

#include "image.h"
#include "sampling.h"
#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sac_video sac_video; /* for one thread at a time */

typedef struct sac_video_limits {
    int64_t max_bytes;     /* of the file */
    int64_t max_pixels;    /* width times height of a frame */
    int64_t max_frames;    /* in the file, before sampling */
    double max_duration_s; /* from the first frame to the last */
    int n_threads; /* for decoding; 0 = one for each processor, at most 8. Frames do not depend on it. */
} sac_video_limits;

/* FFmpeg's version, and the licence of its libraries as they say it; NULL and NULL in builds without. */
const char *sac_video_library(const char **licence);

/* 64 GiB, 8192 x 8192 pixels, 10 million frames, 48 hours, 0 threads. */
sac_video_limits sac_video_limits_default(void);

typedef struct sac_video_info {
    int width, height;               /* as shown: upright, after rotation */
    int stored_width, stored_height; /* as decoded */
    int rotation_degrees;            /* clockwise, what has to be done to show it upright: 0, 90, 180, 270 */
    bool mirrored;                   /* left and right change places before the rotation */
    bool variable_rate;              /* steps between frames differ by more than the file's clock explains */
    int64_t n_frames;
    int64_t n_key_frames; /* places where decoding can start */
    double fps;           /* average; 0 = unknown */
    double duration_s;    /* n_frames / fps; 0 = unknown */
    double start_s;       /* time of the first frame on the file's clock */
    char codec[24];       /* "h264" */
    char container[48];   /* "mov,mp4,m4a,3gp,3g2,mj2" */
    char pixel_format[24];
} sac_video_info;

typedef enum sac_rotate { SAC_ROTATE_AUTO, SAC_ROTATE_NONE } sac_rotate;

/* Reads the container through once, without decoding more than a few frames (formats whose times cannot be
 * trusted are decoded once to count them). limits may be NULL. NOT_FOUND, BAD_FILE, UNSUPPORTED (a codec that
 * is not let in, by name), NO_MEMORY. The error names the file. On failure *out is NULL. */
sac_status sac_video_open(sac_video **out, const char *path, const sac_video_limits *limits, sac_error *err);
/* The same for bytes in memory, borrowed until sac_video_free. */
sac_status sac_video_open_bytes(sac_video **out, const uint8_t *bytes, size_t n_bytes,
                                const sac_video_limits *limits, sac_error *err);
void sac_video_free(sac_video *video); /* NULL is fine */
const sac_video_info *sac_video_get_info(const sac_video *video);

/* Which frames, and when they are shown; see sampling.h. UNSUPPORTED where request->key_frames is asked of a video whose frames can
 * only be counted. */
sac_status sac_video_plan(const sac_video *video, const sac_frame_request *request, sac_frame_plan *plan,
                          sac_error *err);

/* The number of the frame at which decoding starts for frame `index`; -1 = only at the first, where frames can only be counted. */
int64_t sac_video_key_of(const sac_video *video, int64_t index);

/* Did opening it decode all frames? So does every other reader of the same file. */
bool sac_video_was_decoded(const sac_video *video);

enum { SAC_VIDEO_SHARE_FRAMES = 48 }; /* fewer are decoded faster than another reader is opened */

/* Cuts a plan into parts that readers of the same file may decode side by side, at frames where decoding starts anyway:
 * places starts[k] to starts[k + 1] of the plan are part k. All decode about as many frames, SAC_VIDEO_SHARE_FRAMES and
 * more. How many parts there are: 1 to n_most, and 1 where every reader would decode all to begin with; starts has room for
 * n_most + 1. The same file and plan give the same parts. */
int sac_video_share(const sac_video *video, const sac_frame_plan *plan, int n_most, int64_t *starts);

typedef struct sac_video_read_stats {
    int64_t n_decoded;  /* frames that left the decoder */
    int64_t n_seeks;    /* jumps to a key frame */
    int64_t n_replaced; /* damaged frames in whose place the next one (at the end: the last one) was shown */
} sac_video_read_stats;

/* One pass forward, a frame at a time: begin, then next once for every frame of the plan, or fewer times, then
 * end. Memory does not grow with the length of the video. plan->index must be ascending and within the video; the
 * plan is borrowed until the end, and may be read again. When begin fails, nothing is to be ended. */
sac_status sac_video_begin(sac_video *video, const sac_frame_plan *plan, sac_rotate rotate, sac_error *err);
/* The picture is lent until the next call: its memory is used again for the next frame. */
sac_status sac_video_next(sac_video *video, sac_image *frame, sac_error *err);
void sac_video_end(sac_video *video, sac_video_read_stats *stats); /* stats may be NULL */

/* The whole pass: on_frame is called for i = 0 .. plan->n_frames - 1, with a picture that is lent for the call.
 * Any status but SAC_OK stops the reading and is returned by it, with what the callee wrote to err. stats may be
 * NULL. */
typedef sac_status (*sac_frame_fn)(void *ctx, int64_t i, double time_s, const sac_image *frame,
                                   sac_error *err);
sac_status sac_video_read(sac_video *video, const sac_frame_plan *plan, sac_rotate rotate,
                          sac_frame_fn on_frame, void *ctx, sac_video_read_stats *stats, sac_error *err);

/* One still picture: WebP, lossy and lossless; alpha is dropped. Animated WebP gives its first frame when
 * that covers the picture, else UNSUPPORTED. limits may be NULL. On failure *out is empty. For image.c. */
sac_status sac_libav_decode_still(sac_image *out, const uint8_t *bytes, size_t n_bytes,
                                  const sac_image_limits *limits, sac_error *err);

#endif
