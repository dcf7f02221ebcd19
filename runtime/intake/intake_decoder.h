/* intake_decoder.h - pictures and videos of strangers are decoded in a process of their own.
 *
 * `intake_child_run` is the body of a small process that a decoder starts (the command itself, by a hidden
 * name): it waits on a socket, and forks a child for every file. A child opens its input, gives up everything
 * that it could do harm with (rlimits, then a seccomp filter that leaves reading, writing and memory),
 * decodes, sends plain pixels frame by frame and ends. What it sends is never trusted: this side checks every
 * number, and looks at pixels only. A child that crashes, hangs or is killed costs its own file. It ends at once when
 * nobody waits for it any more, and with this process. Each side holds one frame, however long a video is. */
#ifndef INTAKE_DECODER_H
#define INTAKE_DECODER_H

#include "saccade/saccade.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INTAKE_MAX_FRAMES = 65536, INTAKE_MAX_SHARES = 16 };

/* What a child is asked, with a descriptor of the input. */
typedef struct intake_task {
    bool is_video;
    sac_video_options video;       /* which frames; 0 = not asked for */
    int64_t frame_pixels;          /* of a frame as the tower sees it: what video.max_pixels counts */
    int64_t max_frames;            /* that the context, or the server, has room for */
    int64_t max_bytes, max_pixels; /* of the file, of a picture; 0 = the engine's usual limits */
    double max_duration_s;         /* of a video; 0 = the usual */
    uint64_t max_frame_bytes;      /* of a frame's decoded pixels */
    uint64_t max_memory_bytes;
    uint32_t seconds;
    /* A video's frames may be decoded by several children, each a share of them. The first has n_shares 0, and offers to
     * share (intake_sink.share); the others are told which share is theirs. */
    int32_t max_shares; /* the same for all of them, at most INTAKE_MAX_SHARES; 0 or 1 = nothing is shared */
    int32_t share, n_shares;
} intake_task;

/* What was decoded, or why it was not. */
typedef struct intake_info {
    int32_t status; /* sac_status */
    char error[400];
    int32_t width, height; /* of every frame */
    int64_t n_frames, source_frames;
    double source_fps, duration_s;
    char rule[160];
    int64_t n_replaced; /* damaged frames in whose place another is shown */
} intake_info;

typedef struct intake_frame {
    int64_t index;    /* counts from 0 */
    int64_t n_chosen; /* how many come of all shares, as the child says: to be shown only; 0 = not known */
    double time_s;
    int width, height;  /* the same for all frames */
    const uint8_t *rgb; /* [height][width][3], until the call returns */
} intake_frame;

/* Who takes the frames, as they come. A failure ends the decoding with it. Index 0 may come twice: the process
 * that decoded died, and another one begins again; what came before is then void. */
typedef struct intake_sink {
    void *ctx;
    sac_status (*take)(void *ctx, const intake_frame *frame, sac_error *err);
    /* Into how many shares, of n at most, the work is cut: the child goes on with the first. Asked before the first frame, where
     * task.max_shares is above 1. NULL = 1. */
    int (*share)(void *ctx, int n_most);
} intake_sink;

typedef struct intake_decoder intake_decoder;

sac_status intake_decoder_open(intake_decoder **out, sac_error *err);
void intake_decoder_close(intake_decoder *d); /* NULL is fine */

/* Decodes what `input` holds, in a child; from any thread. cancelled may be NULL. *info is whole after success
 * only, and so is what the sink was given. Besides what decoding and the sink fail with: TOO_LONG when a frame
 * is larger than is allowed, IO when there is no process to do it, CANCELLED, BAD_FILE and *crashed when the child died,
 * hung or lied. */
sac_status intake_decode(intake_decoder *d, const intake_task *task, int input, const atomic_bool *cancelled,
                         const intake_sink *sink, intake_info *info, bool *crashed, sac_error *err);

/* The body of the helper process, started as `COMMAND media-helper FD`: the command's main must come here
 * before it starts a thread. Returns the exit code. */
int intake_child_run(int fd);

/* A file in memory that other processes can be handed; -1 without memory. */
int intake_memory_file(const char *name);

#endif
