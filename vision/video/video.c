/* video.c - opening a video, and reading the frames that were chosen (video_table.h has them all). Reading jumps to the last key frame
 * before a wanted frame when that skips enough, and recognises frames by their time. */
#define _GNU_SOURCE
#ifdef SAC_VIDEO

#include "video.h"

#include "frame_pixels.h"
#include "libav_pixels.h"
#include "video_table.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define JUMP_FRAMES 10 /* a jump empties the decoder's pipeline: not worth it for fewer */

struct sac_video {
    sac_video_limits limits;
    sac_video_info info;
    sac_video_table frames;
    sac_turn turn;
    sac_libav_input *input;
    sac_libav_rgb *rgb;
    uint8_t *upright; /* a turned frame */
    size_t upright_bytes;

    /* of the reading in progress */
    const sac_frame_plan *plan; /* NULL: there is none */
    sac_rotate rotate;
    int64_t n_read; /* frames of the plan that were given */
    int64_t at;     /* number of the newest frame where frames are counted; -1 before the first */
    sac_video_read_stats stats;
    bool jumps_fail;      /* decoding from the start found what a jump did not */
    bool restart_useless; /* decoding from the start did not find a damaged frame either */
};

sac_video_limits sac_video_limits_default(void) {
    return (sac_video_limits){.max_bytes = (int64_t)64 << 30,
                              .max_pixels = (int64_t)8192 * 8192,
                              .max_frames = 10000000,
                              .max_duration_s = 48 * 3600.0,
                              .n_threads = 0};
}

const sac_video_info *sac_video_get_info(const sac_video *video) {
    return &video->info;
}

/* ---- opening ---- */

/* The container's average rate is what PyAV, OpenCV and so vLLM and transformers use. Where a container
 * states none, libavformat guesses from the first frames; the times of all of them overrule what
 * is far off. */
static void settle_rate(sac_video_info *info, double mean_step_s) {
    double measured = mean_step_s > 0 ? 1 / mean_step_s : 0, stated = info->fps;
    bool plausible = stated > 0 && (measured <= 0 || (stated < 1.5 * measured && measured < 1.5 * stated));
    if (!plausible) info->fps = measured;
    info->duration_s = info->fps > 0 ? (double)info->n_frames / info->fps : 0;
}

static void describe(sac_video *v) {
    sac_video_info *info = &v->info;
    sac_libav_input_describe(v->input, info, &v->turn);
    info->n_frames = v->frames.table.n_frames;
    info->n_key_frames = v->frames.table.n_keys;
    double mean = 0;
    int64_t shortest = 0, longest = 0;
    if (v->frames.has_times) {
        info->start_s = sac_libav_input_seconds(v->input, v->frames.table.pts[0]);
        sac_frame_table_steps(&v->frames.table, &mean, &shortest, &longest);
    }
    settle_rate(info, mean * sac_libav_input_seconds(v->input, 1));
    info->variable_rate = longest - shortest > 2 && (double)(longest - shortest) > 0.02 * mean;
}

static sac_status open_video(sac_video **out, int fd, const uint8_t *bytes, int64_t n_bytes,
                             const sac_video_limits *limits, sac_error *err) {
    sac_video_limits most = limits ? *limits : sac_video_limits_default();
    sac_libav_input *input = NULL;
    sac_status st = SAC_OK;
    if (n_bytes == 0)
        st = sac_fail(err, SAC_BAD_FILE, "the file is empty");
    else if (n_bytes > most.max_bytes)
        st = sac_fail(err, SAC_BAD_FILE, "%" PRId64 " bytes: more than the limit of %" PRId64, n_bytes,
                      most.max_bytes);
    if (st != SAC_OK) {
        if (fd >= 0) close(fd);
        return st;
    }
    SAC_TRY(sac_libav_input_open(&input, fd, bytes, n_bytes, &most, err));
    sac_video *v = calloc(1, sizeof *v);
    if (!v) {
        sac_libav_input_free(input);
        return sac_libav_no_memory(err);
    }
    v->limits = most;
    v->input = input;
    v->rgb = sac_libav_rgb_create();
    st = v->rgb ? sac_video_table_build(&v->frames, v->input, &v->limits, err) : sac_libav_no_memory(err);
    if (st != SAC_OK) {
        sac_video_free(v);
        return st;
    }
    describe(v);
    *out = v;
    return SAC_OK;
}

sac_status sac_video_open(sac_video **out, const char *path, const sac_video_limits *limits, sac_error *err) {
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* NONBLOCK: opening a FIFO must not hang */
    if (fd < 0) {
        int e = errno;
        return sac_fail(err, e == ENOENT || e == ENOTDIR ? SAC_NOT_FOUND : SAC_IO, "%s: %s", path,
                        strerror(e));
    }
    struct stat file;
    if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) {
        close(fd);
        return sac_fail(err, SAC_BAD_FILE, "%s: not a regular file", path);
    }
    sac_status st = open_video(out, fd, NULL, file.st_size, limits, err);
    return st == SAC_OK ? SAC_OK : sac_fail_prefix(err, st, "%s", path);
}

sac_status sac_video_open_bytes(sac_video **out, const uint8_t *bytes, size_t n_bytes,
                                const sac_video_limits *limits, sac_error *err) {
    *out = NULL;
    if (n_bytes > INT64_MAX / 4) return sac_fail(err, SAC_BAD_ARGUMENT, "%zu bytes are no video", n_bytes);
    return open_video(out, -1, bytes, (int64_t)n_bytes, limits, err);
}

/* What a decoder has freed, 10 MB and more, would else lie unused in glibc's heap during the prefill. */
static void return_freed_memory(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

void sac_video_free(sac_video *v) {
    if (!v) return;
    sac_libav_input_free(v->input);
    sac_libav_rgb_free(v->rgb);
    sac_frame_table_free(&v->frames.table);
    free(v->upright);
    free(v);
    return_freed_memory();
}

/* Key frames in the place of the frames behind them; before the first key frame, the first frame. */
static sac_status take_key_frames(const sac_video *v, sac_frame_plan *plan, sac_error *err) {
    int64_t n = 0;
    for (int64_t i = 0; i < plan->n_frames; i++) {
        int64_t key = sac_video_key_of(v, plan->index[i]);
        if (v->frames.by_count)
            return sac_fail(err, SAC_UNSUPPORTED,
                            "key_frames: decoding this video can only start at its first frame");
        if (key < 0) key = 0;
        if (n == 0 || key > plan->index[n - 1]) plan->index[n++] = key;
    }
    plan->n_frames = n;
    for (int64_t i = 0; i < n; i++)
        plan->time_s[i] = plan->source_fps > 0 ? (double)plan->index[i] / plan->source_fps : 0;
    size_t used = strlen(plan->text);
    snprintf(plan->text + used, sizeof plan->text - used, ": %" PRId64 " key frames", n);
    return SAC_OK;
}

sac_status sac_video_plan(const sac_video *v, const sac_frame_request *request, sac_frame_plan *plan,
                          sac_error *err) {
    sac_sampling_source source = {v->info.n_frames, v->info.fps, (int64_t)v->info.width * v->info.height};
    SAC_TRY(sac_sampling_plan(plan, request, &source, err));
    sac_status st = request->key_frames ? take_key_frames(v, plan, err) : SAC_OK;
    if (st != SAC_OK) {
        sac_frame_plan_free(plan);
        return st;
    }
    for (int64_t i = 0; i < plan->n_frames && v->frames.has_times; i++)
        plan->time_s[i] = sac_libav_input_seconds(v->input, v->frames.table.pts[plan->index[i]]);
    return SAC_OK;
}

bool sac_video_was_decoded(const sac_video *v) {
    return v->frames.was_decoded;
}

int64_t sac_video_key_of(const sac_video *v, int64_t index) {
    if (v->frames.by_count) return -1;
    int64_t key = sac_frame_table_key_for(&v->frames.table, v->frames.table.pts[index]);
    return key < 0 ? -1 : sac_frame_table_rank(&v->frames.table, v->frames.table.keys[key].pts);
}

/* ---- reading ---- */

/* For the decoder: is this one of the chosen frames? */
static bool is_planned(void *ctx, int64_t pts) {
    const sac_video *v = ctx;
    int64_t k = sac_frame_table_rank(&v->frames.table, pts), low = 0, high = v->plan->n_frames;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (v->plan->index[middle] < k)
            low = middle + 1;
        else
            high = middle;
    }
    return low < v->plan->n_frames && v->plan->index[low] == k;
}

static sac_step decode(sac_video *v) {
    sac_step step = sac_libav_input_decode(v->input);
    v->stats.n_decoded += step == SAC_STEP_DONE;
    return step;
}

static bool jump(sac_video *v, int64_t key) {
    v->stats.n_seeks++;
    return sac_libav_input_jump(v->input, v->frames.table.keys[key].pts, v->frames.table.keys[key].seek_ts);
}

static bool worth_jumping(const sac_video *v, int64_t key) {
    int64_t here;
    bool has_time;
    if (!sac_libav_input_newest(v->input, &here, &has_time) || !has_time) return true;
    return sac_frame_table_rank(&v->frames.table, v->frames.table.keys[key].pts) >
           sac_frame_table_rank(&v->frames.table, here) + JUMP_FRAMES;
}

/* Decodes until the newest frame is the one at pts (*exact) or a later one; at the end of the video, the last
 * one. *late: nothing at or before pts was seen since the last jump. */
static sac_step decode_to(sac_video *v, int64_t pts, bool *exact, bool *late) {
    int64_t here;
    bool has_time;
    *late = true;
    for (bool any = sac_libav_input_newest(v->input, &here, &has_time) != NULL;; any = true) {
        if (any) {
            *exact = has_time && here == pts;
            if (!has_time || here <= pts) *late = false;
            if (has_time && here >= pts) return SAC_STEP_DONE;
        }
        sac_step step = decode(v);
        if (step == SAC_STEP_END && any) return SAC_STEP_DONE;
        if (step != SAC_STEP_DONE) return step;
        sac_libav_input_newest(v->input, &here, &has_time);
    }
}

/* Jumps to the key frame before pts, or if that leads nowhere to the one before it. */
static sac_step find_by_jump(sac_video *v, int64_t pts, int64_t key, bool *exact, bool *late) {
    sac_step step = SAC_STEP_LOST;
    for (int64_t k = key; k >= 0 && k >= key - 1; k--) {
        step = jump(v, k) ? decode_to(v, pts, exact, late) : SAC_STEP_LOST;
        if (step == SAC_STEP_NO_MEMORY || (step == SAC_STEP_DONE && !*late)) break;
    }
    return step;
}

static bool has_newest(const sac_video *v) {
    int64_t pts;
    bool has_time;
    return sac_libav_input_newest(v->input, &pts, &has_time) != NULL;
}

/* Makes the frame at pts the newest. Where jumps fail, everything from the start is decoded; once that did
 * not help either, the frame is damaged and the one after it stands in. */
static sac_status find_by_time(sac_video *v, int64_t pts, bool *exact, sac_error *err) {
    int64_t key = sac_frame_table_key_for(&v->frames.table, pts);
    bool late = false, jumped = key >= 0 && !v->jumps_fail && worth_jumping(v, key);
    sac_step step = SAC_STEP_LOST;
    if (jumped) {
        step = find_by_jump(v, pts, key, exact, &late);
    } else if (has_newest(v)) {
        step = decode_to(v, pts, exact, &late);
        late = false; /* frames in between came out: what is missing is damaged */
    }
    if (step == SAC_STEP_DONE && (!late || v->restart_useless)) return SAC_OK;
    if (step == SAC_STEP_NO_MEMORY) return sac_libav_no_memory(err);

    SAC_TRY(sac_libav_input_restart(v->input, err));
    step = decode_to(v, pts, exact, &late);
    if (step == SAC_STEP_NO_MEMORY) return sac_libav_no_memory(err);
    if (step != SAC_STEP_DONE) return sac_video_nothing_decodes(err);
    v->jumps_fail |= jumped && *exact;
    v->restart_useless |= !*exact;
    return SAC_OK;
}

/* Makes the frame of that number the newest; *at is the number of the newest, -1 before the first. */
static sac_status find_by_count(sac_video *v, int64_t index, int64_t *at, bool *exact, sac_error *err) {
    if (*at < 0) SAC_TRY(sac_libav_input_restart(v->input, err));
    *exact = true;
    while (*at < index && *exact) {
        sac_step step = decode(v);
        if (step == SAC_STEP_NO_MEMORY) return sac_libav_no_memory(err);
        if (step != SAC_STEP_DONE && *at < 0) return sac_video_nothing_decodes(err);
        *exact = step == SAC_STEP_DONE;
        *at += *exact;
    }
    return SAC_OK;
}

static sac_status check_plan(const sac_video *v, const sac_frame_plan *plan, sac_error *err) {
    for (int64_t i = 0; i < plan->n_frames; i++)
        if (plan->index[i] < (i > 0 ? plan->index[i - 1] : 0) || plan->index[i] >= v->frames.table.n_frames)
            return sac_fail(err, SAC_BAD_ARGUMENT,
                            "frame %" PRId64 " is out of order or not in the video of %" PRId64 " frames",
                            plan->index[i], v->frames.table.n_frames);
    return SAC_OK;
}

static sac_status turn_upright(sac_video *v, sac_image *image, sac_error *err) {
    size_t n_bytes = (size_t)image->width * (size_t)image->height * 3;
    if (n_bytes > v->upright_bytes) {
        free(v->upright);
        v->upright = malloc(n_bytes);
        v->upright_bytes = v->upright ? n_bytes : 0;
        if (!v->upright) return sac_libav_no_memory(err);
    }
    sac_turn_rgb(v->upright, image->rgb, image->width, image->height, v->turn);
    int width = v->turn.transpose ? image->height : image->width;
    int height = v->turn.transpose ? image->width : image->height;
    *image = (sac_image){v->upright, width, height};
    return SAC_OK;
}

static sac_status newest_picture(sac_video *v, sac_rotate rotate, sac_image *image, sac_error *err) {
    int64_t pts;
    bool has_time;
    const struct AVFrame *frame = sac_libav_input_newest(v->input, &pts, &has_time);
    SAC_TRY(sac_libav_rgb_convert(v->rgb, frame, v->limits.max_pixels, image, err));
    if (rotate == SAC_ROTATE_NONE || sac_turn_is_none(v->turn)) return SAC_OK;
    return turn_upright(v, image, err);
}

sac_status sac_video_begin(sac_video *v, const sac_frame_plan *plan, sac_rotate rotate, sac_error *err) {
    SAC_TRY(check_plan(v, plan, err));
    memset(&v->stats, 0, sizeof v->stats);
    v->plan = plan;
    v->rotate = rotate;
    v->n_read = 0;
    v->at = -1;
    sac_libav_input_forget(v->input); /* frames before the last reading's may be asked for */
    if (!v->frames.by_count) sac_libav_input_set_wanted(v->input, is_planned, v);
    return SAC_OK;
}

sac_status sac_video_next(sac_video *v, sac_image *frame, sac_error *err) {
    bool exact = true;
    int64_t index = v->plan->index[v->n_read];
    if (v->frames.by_count)
        SAC_TRY(find_by_count(v, index, &v->at, &exact, err));
    else
        SAC_TRY(find_by_time(v, v->frames.table.pts[index], &exact, err));
    v->stats.n_replaced += !exact;
    v->n_read++;
    return newest_picture(v, v->rotate, frame, err);
}

void sac_video_end(sac_video *v, sac_video_read_stats *stats) {
    sac_libav_input_set_wanted(v->input, NULL, NULL);
    sac_libav_input_forget(v->input);
    v->plan = NULL;
    if (stats) *stats = v->stats;
}

#else
typedef int sac_video_is_absent; /* see video_absent.c */
#endif
