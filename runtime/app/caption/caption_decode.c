#define _GNU_SOURCE
#include "caption_decode.h"
#include "status.h"

#include "intake_media.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A day's video may be long; what takes longer than this hangs. */
enum { SECONDS_MAX = 1200 };

struct caption_decoder {
    intake_decoder *intake;
    const sac_model *model;
    sac_model_info info;
    int64_t n_ctx;
    const char *reduce;  /* as in sac_session_config */
    uint64_t most_bytes; /* of an item that is prepared, or of one decoded frame */
};

struct caption_decoded {
    intake_media media;
    caption_decoded *next;
};

/* ---------------------------------------------------------------- the process */

static int file_in_memory(const void *bytes, size_t n_bytes) {
    int fd = intake_memory_file("saccade-item");
    for (const char *p = bytes; fd >= 0 && n_bytes;) {
        ssize_t n = write(fd, p, n_bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n > 0) p += n, n_bytes -= (size_t)n;
        if (n <= 0) close(fd), fd = -1;
    }
    return fd;
}

/* One white pixel. */
static const uint8_t bmp[] = {'B', 'M', 58, 0, 0, 0, 0, 0, 0,  0, 54, 0, 0, 0, 40,  0,   0,   0, 1, 0,
                              0,   0,   1,  0, 0, 0, 1, 0, 24, 0, 0,  0, 0, 0, 4,   0,   0,   0, 0, 0,
                              0,   0,   0,  0, 0, 0, 0, 0, 0,  0, 0,  0, 0, 0, 255, 255, 255, 0};

static sac_status take_nothing(void *ctx, const intake_frame *frame, sac_error *err) {
    (void)ctx, (void)frame, (void)err;
    return SAC_OK;
}

static sac_status try_one(const caption_decoder *d, sac_error *err) {
    intake_task task = {
        .max_frames = 1, .max_frame_bytes = 1 << 20, .max_memory_bytes = (uint64_t)3 << 29, .seconds = 60};
    intake_sink sink = {.take = take_nothing};
    intake_info info;
    bool crashed;
    int fd = file_in_memory(bmp, sizeof bmp);
    if (fd < 0) return sac_fail(err, SAC_NO_MEMORY, "no memory for a picture of one pixel");
    sac_status st = intake_decode(d->intake, &task, fd, NULL, &sink, &info, &crashed, err);
    close(fd);
    return st;
}

sac_status caption_decoder_open(caption_decoder **out, const sac_model *m, int64_t n_ctx, const char *reduce,
                                sac_error *err) {
    caption_decoder *d = *out = calloc(1, sizeof *d);
    if (!d) return sac_fail_no_memory(err);
    d->model = m;
    d->n_ctx = n_ctx;
    d->reduce = reduce;
    sac_model_get_info(m, &d->info);
    d->most_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) / 4 * (uint64_t)sysconf(_SC_PAGESIZE);
    sac_status st = intake_decoder_open(&d->intake, err);
    if (st == SAC_OK) st = try_one(d, err);
    if (st == SAC_OK) return SAC_OK;
    caption_decoder_close(d);
    *out = NULL;
    return sac_fail_prefix(err, err->status,
                           "no locked-in process for decoding (--trust-media does without)");
}

void caption_decoder_close(caption_decoder *d) {
    if (!d) return;
    intake_decoder_close(d->intake);
    free(d);
}

/* ---------------------------------------------------------------- one file */

static sac_status open_file(const char *path, int *fd, sac_error *err) {
    struct stat st;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hold the job up */
    if (*fd < 0)
        return sac_fail(err, errno == ENOENT ? SAC_NOT_FOUND : SAC_IO, "%s: %s", path, strerror(errno));
    if (fstat(*fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) return SAC_OK;
    bool is_empty = S_ISREG(st.st_mode);
    close(*fd);
    return sac_fail(err, SAC_BAD_FILE, "%s: %s", path, is_empty ? "the file is empty" : "not a file");
}

static uint64_t bytes_prepared(const caption_request *q) {
    uint64_t n = 0;
    for (const caption_decoded *i = q->decoded; i; i = i->next) n += i->media.n_bytes;
    return n;
}

/* The file at `path`, or the bytes. *out belongs to the request. */
static sac_status decode(caption_decoder *d, caption_request *q, intake_task *task, bool is_frame,
                         const char *path, const void *bytes, size_t n_bytes, const atomic_bool *cancelled,
                         const intake_media **out, sac_error *err) {
    int fd = -1;
    bool crashed;
    struct stat file;
    if (path) SAC_TRY(open_file(path, &fd, err));
    if (!path) fd = file_in_memory(bytes, n_bytes);
    caption_decoded *to = calloc(1, sizeof *to);
    if (fd < 0 || !to || fstat(fd, &file) != 0) {
        if (fd >= 0) close(fd);
        free(to);
        return sac_fail_no_memory(err);
    }
    uint64_t had = bytes_prepared(q);
    intake_use use = {
        .model = d->model, .is_frame = is_frame, .max_bytes = had < d->most_bytes ? d->most_bytes - had : 0};
    task->max_frame_bytes = d->most_bytes;
    task->max_memory_bytes = (uint64_t)file.st_size + ((uint64_t)3 << 29); /* decoders' own: 1.5 GiB */
    task->seconds = SECONDS_MAX;
    task->frame_pixels = (int64_t)d->info.image_size * d->info.image_size;
    sac_status st = intake_media_open(&to->media, d->intake, task, &use, fd, cancelled, &crashed, err);
    close(fd);
    if (st != SAC_OK) {
        free(to);
        return path ? sac_fail_prefix(err, err->status, "%s", path) : st;
    }
    to->next = q->decoded;
    q->decoded = to;
    *out = &to->media;
    return SAC_OK;
}

/* ---------------------------------------------------------------- parts */

static void drop_file(sac_part *p) {
    free((void *)(uintptr_t)p->bytes);
    free((char *)(uintptr_t)p->path);
    p->bytes = NULL;
    p->path = NULL;
}

static sac_status decode_picture(caption_decoder *d, caption_request *q, sac_part *p,
                                 const atomic_bool *cancelled, sac_error *err) {
    intake_task task = {.video = p->video, .max_frames = 1};
    const intake_media *media;
    SAC_TRY(decode(d, q, &task, false, p->path, p->bytes, p->n_bytes, cancelled, &media, err));
    drop_file(p);
    p->prepared = media->frames[0];
    return SAC_OK;
}

/* The child chooses the frames; the engine gets them as a list, prepared, and sees no file. */
static sac_status decode_video(caption_decoder *d, caption_request *q, sac_part *p, int64_t most,
                               const atomic_bool *cancelled, sac_error *err) {
    if (most > INTAKE_MAX_FRAMES) most = INTAKE_MAX_FRAMES;
    if (p->video.max_frames && p->video.max_frames < most) most = p->video.max_frames;
    intake_task task = {.is_video = true, .video = sac_model_video_options(d->model, p->video), .max_frames = most};
    const intake_media *media;
    SAC_TRY(decode(d, q, &task, true, p->path, p->bytes, p->n_bytes, cancelled, &media, err));
    size_t n = (size_t)media->info.n_frames;
    sac_frame *frames = calloc(n, sizeof *frames);
    if (!frames) return sac_fail_no_memory(err);
    for (size_t i = 0; i < n; i++)
        frames[i] = (sac_frame){.prepared = media->frames[i], .time_s = media->times[i]};
    drop_file(p);
    p->kind = SAC_PART_FRAMES;
    p->frames = frames;
    p->n_frames = n;
    p->video = (sac_video_options){0};
    return SAC_OK;
}

static sac_status decode_list(caption_decoder *d, caption_request *q, sac_part *p,
                              const atomic_bool *cancelled, sac_error *err) {
    sac_frame *frames = (sac_frame *)(uintptr_t)p->frames;
    for (size_t i = 0; i < p->n_frames; i++) {
        intake_task task = {.max_frames = 1, .video = {.no_rotate = p->video.no_rotate}};
        const intake_media *media;
        SAC_TRY(decode(d, q, &task, true, frames[i].path, NULL, 0, cancelled, &media, err));
        free((char *)(uintptr_t)frames[i].path);
        frames[i].path = NULL;
        frames[i].prepared = media->frames[0];
    }
    return SAC_OK;
}

/* ---------------------------------------------------------------- items */

/* The conversation is our own: its parts may change. */
static sac_part *part_of(const caption_request *q, size_t message, size_t part) {
    return (sac_part *)(uintptr_t)&q->c.messages[message].parts[part];
}

static bool is_video(const sac_part *p) {
    return p->kind == SAC_PART_VIDEO || p->kind == SAC_PART_FRAMES;
}

/* The part's size goes into the room. */
static sac_status decode_part(caption_decoder *d, caption_request *q, sac_part *p, sac_room *room,
                              const atomic_bool *cancelled, sac_error *err) {
    if (p->kind == SAC_PART_IMAGE) {
        SAC_TRY(decode_picture(d, q, p, cancelled, err));
        const intake_info *info = &q->decoded->media.info; /* what was decoded last stands first */
        return room->n_videos ? sac_room_picture(room, info->width, info->height, err) : SAC_OK;
    }
    if (p->kind == SAC_PART_FRAMES) SAC_TRY(decode_list(d, q, p, cancelled, err));
    if (p->kind == SAC_PART_VIDEO) SAC_TRY(decode_video(d, q, p, sac_room_frames(room), cancelled, err));
    sac_room_video(room, (int64_t)p->n_frames);
    return SAC_OK;
}

static sac_status decode_all(caption_decoder *d, caption_request *q, bool videos, sac_room *room,
                             const atomic_bool *cancelled, sac_error *err) {
    for (size_t i = 0; i < q->c.n_messages; i++)
        for (size_t k = 0; k < q->c.messages[i].n_parts; k++) {
            sac_part *p = part_of(q, i, k);
            if (p->kind == SAC_PART_TEXT || is_video(p) != videos) continue;
            SAC_TRY(decode_part(d, q, p, room, cancelled, err));
        }
    return SAC_OK;
}

/* Pictures first: what they leave of the context is shared by the videos. */
sac_status caption_decode(caption_decoder *d, caption_request *q, const atomic_bool *cancelled,
                          sac_error *err) {
    sac_room room;
    SAC_TRY(sac_room_open(&room, d->model, d->n_ctx, d->reduce, q->c.messages, q->c.n_messages, err));
    SAC_TRY(decode_all(d, q, false, &room, cancelled, err));
    return decode_all(d, q, true, &room, cancelled, err);
}

/* Nothing of the conversation may point at what goes. */
static void forget(sac_part *p) {
    sac_frame *frames = (sac_frame *)(uintptr_t)p->frames;
    p->prepared = NULL;
    for (size_t i = 0; i < p->n_frames; i++) frames[i].prepared = NULL;
}

void caption_decoded_free(caption_request *q) {
    for (size_t i = 0; q->decoded && i < q->c.n_messages; i++)
        for (size_t k = 0; k < q->c.messages[i].n_parts; k++) forget(part_of(q, i, k));
    for (caption_decoded *next; q->decoded; q->decoded = next) {
        next = q->decoded->next;
        intake_media_free(&q->decoded->media);
        free(q->decoded);
    }
}
