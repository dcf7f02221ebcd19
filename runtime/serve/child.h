/* child.h - pictures and videos of strangers are decoded in a process of their own.
 *
 * `serve_helper_run` is the body of a small process that the server starts (the command itself, by a hidden
 * name): it waits on a socket, and forks a child for every file. A child opens its input, gives up everything
 * that it could do harm with (rlimits, then a seccomp filter that leaves reading, writing and memory),
 * decodes, writes plain pixels into a file in memory and ends. What it writes is never trusted: the server
 * checks every number, and looks at pixels only. A child that crashes, hangs or is killed costs its own
 * request. */
#ifndef SERVE_CHILD_H
#define SERVE_CHILD_H

#include "saccade/status.h"
#include "sampling.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SERVE_CHILD_MAX_FRAMES = 65536, SERVE_BMP_HEAD = 54 };

/* What a child is asked, with two descriptors: the input, and the memory for the pixels. */
typedef struct serve_child_task {
    bool is_video, no_rotate;
    sac_frame_request frames;
    int64_t max_bytes, max_pixels, max_frames;
    double max_duration_s;
    uint64_t max_output_bytes, max_memory_bytes;
    uint32_t seconds;
} serve_child_task;

/* What it says at its end, by the socket. The pixels: for every frame a space of SERVE_BMP_HEAD bytes, then
 * rows from the top, blue-green-red, each padded to 4 bytes: a BMP file without its head. */
typedef struct serve_child_reply {
    int32_t status; /* sac_status */
    char error[400];
    int32_t width, height; /* of every frame */
    int64_t n_frames, source_frames;
    double source_fps, duration_s;
    char rule[160];
} serve_child_reply;

static inline size_t serve_bmp_row_bytes(int64_t width) {
    return ((size_t)width * 3 + 3) / 4 * 4;
}
static inline size_t serve_bmp_bytes(int64_t width, int64_t height) {
    return SERVE_BMP_HEAD + serve_bmp_row_bytes(width) * (size_t)height;
}

#endif
