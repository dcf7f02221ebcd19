/* intake_decoder.h - pictures and videos of strangers are decoded in a process of their own.
 *
 * `intake_child_run` is the body of a small process that a decoder starts (the command itself, by a hidden
 * name): it waits on a socket, and forks a child for every file. A child opens its input, gives up everything
 * that it could do harm with (rlimits, then a seccomp filter that leaves reading, writing and memory),
 * decodes, writes plain pixels into a file in memory and ends. What it writes is never trusted: the other
 * side checks every number, and looks at pixels only. A child that crashes, hangs or is killed costs its own
 * file. */
#ifndef INTAKE_DECODER_H
#define INTAKE_DECODER_H

#include "saccade/saccade.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INTAKE_MAX_FRAMES = 65536, INTAKE_BMP_HEAD = 54 };

/* What a child is asked, with two descriptors: the input, and the memory for the pixels. */
typedef struct intake_task {
    bool is_video;
    sac_video_options video;       /* which frames; 0 = not asked for */
    int64_t frame_pixels;          /* of a frame as the tower sees it: what video.max_pixels counts */
    int64_t max_frames;            /* that the context, or the server, has room for */
    int64_t max_bytes, max_pixels; /* of the file, of a picture; 0 = the engine's usual limits */
    double max_duration_s;         /* of a video; 0 = the usual */
    uint64_t max_output_bytes, max_memory_bytes;
    uint32_t seconds;
} intake_task;

/* What it says at its end, by the socket. The pixels: for every frame a space of INTAKE_BMP_HEAD bytes, then
 * rows from the top, blue-green-red, each padded to 4 bytes: a BMP file without its head. */
typedef struct intake_info {
    int32_t status; /* sac_status */
    char error[400];
    int32_t width, height; /* of every frame */
    int64_t n_frames, source_frames;
    double source_fps, duration_s;
    char rule[160];
} intake_info;

/* What was decoded: BMP files one behind the other, read-only. */
typedef struct intake_pixels {
    uint8_t *map;
    size_t n_bytes;
    intake_info info;
    double *times; /* [info.n_frames] */
} intake_pixels;

void intake_pixels_free(intake_pixels *p);
/* The i-th frame, a BMP file of *n_bytes. */
const uint8_t *intake_pixels_frame(const intake_pixels *p, int64_t i, size_t *n_bytes);

typedef struct intake_decoder intake_decoder;

sac_status intake_decoder_open(intake_decoder **out, sac_error *err);
void intake_decoder_close(intake_decoder *d); /* NULL is fine */

/* Decodes what `input` holds, in a child; from any thread. cancelled may be NULL. Besides what decoding fails
 * with: TOO_LONG when the pixels are more than is allowed, IO when there is no process to do it, BAD_FILE and
 * *crashed when the child died, hung or lied. */
sac_status intake_decode(intake_decoder *d, const intake_task *task, int input, const atomic_bool *cancelled,
                         intake_pixels *out, bool *crashed, sac_error *err);

/* The body of the helper process, started as `COMMAND media-helper FD`: the command's main must come here
 * before it starts a thread. Returns the exit code. */
int intake_child_run(int fd);

/* A file in memory that other processes can be handed; -1 without memory. */
int intake_memory_file(const char *name);

static inline size_t intake_bmp_row_bytes(int64_t width) {
    return ((size_t)width * 3 + 3) / 4 * 4;
}
static inline size_t intake_bmp_bytes(int64_t width, int64_t height) {
    return INTAKE_BMP_HEAD + intake_bmp_row_bytes(width) * (size_t)height;
}

#endif
