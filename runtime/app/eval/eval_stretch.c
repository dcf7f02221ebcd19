#include "eval_stretch.h"
#include "sampling.h"
#include "status.h"
#include "video.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES_BETWEEN = 16 }; /* LongVideoBench's own number, where none is asked for */
#define PIXEL_BYTES_MAX ((int64_t)2 << 30)

typedef struct frames {
    sac_frame_plan plan;
    uint8_t *rgb; /* [plan.n_frames][height][width][3] */
    int width, height;
} frames;

static void free_frames(frames *f) {
    sac_frame_plan_free(&f->plan);
    free(f->rgb);
    *f = (frames){0};
}

static sac_status keep_frame(void *ctx, int64_t i, double time_s, const sac_image *image, sac_error *err) {
    frames *f = ctx;
    size_t n_bytes = (size_t)3 * (size_t)f->width * (size_t)f->height;
    if (image->width != f->width || image->height != f->height)
        return sac_fail(err, SAC_UNSUPPORTED, "a frame of another size is in the video");
    memcpy(f->rgb + (size_t)i * n_bytes, image->rgb, n_bytes);
    f->plan.time_s[i] = time_s;
    return SAC_OK;
}

/* ---------------------------------------------------------------- which frames */

/* Frames [first, last] of the video, n of them; at least one. */
static sac_status plan_frames(frames *f, const sac_video_info *info, bool upright, int64_t first,
                              int64_t last, int64_t n, sac_error *err) {
    if (last >= info->n_frames) last = info->n_frames - 1;
    if (first > last) first = last;
    if (first < 0) return sac_fail(err, SAC_BAD_FILE, "no frame is in the video");
    if (n > last - first + 1) n = last - first + 1;
    if (n < 1) n = 1;
    f->width = upright ? info->width : info->stored_width;
    f->height = upright ? info->height : info->stored_height;
    if ((int64_t)3 * f->width * f->height > PIXEL_BYTES_MAX / n)
        return sac_fail(err, SAC_TOO_LONG, "%lld frames of %d x %d are more than 2 GiB; ask for fewer",
                        (long long)n, f->width, f->height);
    f->plan = (sac_frame_plan){.n_frames = n,
                               .index = malloc((size_t)n * sizeof(int64_t)),
                               .time_s = calloc((size_t)n, sizeof(double)),
                               .source_fps = info->fps,
                               .total_frames = info->n_frames};
    f->rgb = malloc((size_t)n * 3 * (size_t)f->width * (size_t)f->height);
    if (!f->plan.index || !f->plan.time_s || !f->rgb) return sac_fail_no_memory(err);
    for (int64_t i = 0; i < n; i++) f->plan.index[i] = first + sac_linspace_index(last - first + 1, n, i);
    for (int64_t i = 0; i < n && info->fps > 0; i++) f->plan.time_s[i] = (double)f->plan.index[i] / info->fps;
    return SAC_OK;
}

/* How many frames of so many seconds: num_frames, or fps, at most max_frames. */
static int64_t number_of(const sac_video_options *o, double seconds, int64_t most) {
    double n = o->num_frames > 0 ? o->num_frames : o->fps > 0 ? ceil(seconds * o->fps) : (double)most;
    if (o->max_frames > 0 && n > o->max_frames) n = o->max_frames;
    if (o->num_frames <= 0 && n > (double)most && o->max_frames <= 0) n = (double)most;
    return n < 1 ? 1 : (int64_t)n;
}

static sac_status decode(frames *f, sac_video *video, const settings *s, sac_error *err) {
    return sac_video_read(video, &f->plan, s->no_rotate ? SAC_ROTATE_NONE : SAC_ROTATE_AUTO, keep_frame, f,
                          NULL, err);
}

/* ---------------------------------------------------------------- messages */

/* end_s 0 = the whole video, in at most `most` frames. */
static sac_status read_stretch(frames *f, const char *path, double start_s, double end_s, int64_t most,
                               const settings *s, const sac_model *model, sac_error *err) {
    sac_video_options asked = {
        .fps = s->fps, .num_frames = (int)s->num_frames, .max_frames = (int)s->max_frames};
    sac_video_options o = sac_model_video_options(model, asked);
    sac_video *video;
    if (s->key_frames)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "key_frames: frames of this set's stretches are chosen by its own rule");
    SAC_TRY(sac_video_open(&video, path, NULL, err));
    const sac_video_info *info = sac_video_get_info(video);
    double fps = info->fps > 0 ? info->fps : 1;
    if (end_s <= 0) end_s = (double)info->n_frames / fps;
    int64_t first = (int64_t)ceil(start_s * fps - 1e-6), last = (int64_t)floor(end_s * fps + 1e-6);
    sac_status st =
        plan_frames(f, info, !s->no_rotate, first, last, number_of(&o, end_s - start_s, most), err);
    if (st == SAC_OK) st = decode(f, video, s, err);
    sac_video_free(video);
    return st;
}

sac_status eval_stretch_add(conversation *c, const char *path, double start_s, double end_s,
                            const settings *s, const sac_model *model, sac_error *err) {
    frames f = {0};
    sac_status st = read_stretch(&f, path, start_s, end_s, EVAL_STRETCH_FRAMES, s, model, err);
    if (st == SAC_OK) {
        sac_pixels pixels = {.width = f.width,
                             .height = f.height,
                             .rgb = f.rgb,
                             .n_frames = (size_t)f.plan.n_frames,
                             .time_s = f.plan.time_s};
        f.rgb = NULL; /* the conversation's, in any case */
        f.plan.time_s = NULL;
        st = conversation_add_pixels(c, &pixels, s, err);
    }
    free_frames(&f);
    return st;
}

static sac_status add_picture(conversation *c, const frames *f, int64_t i, const settings *s,
                              sac_error *err) {
    size_t n_bytes = (size_t)3 * (size_t)f->width * (size_t)f->height;
    sac_pixels picture = {.width = f->width, .height = f->height, .rgb = malloc(n_bytes)};
    if (!picture.rgb) return sac_fail_no_memory(err);
    memcpy((uint8_t *)picture.rgb, f->rgb + (size_t)i * n_bytes, n_bytes);
    return conversation_add_pixels(c, &picture, s, err);
}

static sac_status add_line(conversation *c, const char *text, sac_error *err) {
    SAC_TRY(conversation_add_text(c, text, strlen(text), err));
    return conversation_add_text(c, "\n", 1, err);
}

/* LongVideoBench's rule: a subtitle stands at its middle, behind the frames before that, if a frame lies within it; one of
 * less than a second counts as of one. */
static sac_status interleave(conversation *c, const frames *f, const json_t *subtitles, const settings *s,
                             sac_error *err) {
    int64_t at = 0, n = f->plan.n_frames;
    for (size_t k = 0; k < json_array_size(subtitles); k++) {
        const json_t *line = json_array_get(subtitles, k);
        double start = json_number_value(json_object_get(line, "start"));
        double end = json_number_value(json_object_get(line, "end")), middle = (start + end) / 2;
        for (; at < n && f->plan.time_s[at] <= middle; at++) SAC_TRY(add_picture(c, f, at, s, err));
        if (end - start < 1) start = middle - 0.5, end = middle + 0.5;
        bool covers = false;
        for (int64_t i = 0; i < n; i++)
            covers = covers || (f->plan.time_s[i] > start && f->plan.time_s[i] < end);
        if (covers) SAC_TRY(add_line(c, json_string_value(json_object_get(line, "text")), err));
    }
    for (; at < n; at++) SAC_TRY(add_picture(c, f, at, s, err));
    return SAC_OK;
}

sac_status eval_stretch_add_between(conversation *c, const char *path, const json_t *subtitles,
                                    const settings *s, const sac_model *model, sac_error *err) {
    frames f = {0};
    sac_status st = read_stretch(&f, path, 0, 0, FRAMES_BETWEEN, s, model, err);
    if (st == SAC_OK) st = interleave(c, &f, subtitles, s, err);
    free_frames(&f);
    return st;
}
