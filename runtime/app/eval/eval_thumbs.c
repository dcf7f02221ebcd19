#define _GNU_SOURCE
#include "eval_thumbs.h"
#include "eval_media.h"
#include "image.h"
#include "jpeg_write.h"
#include "resize.h"
#include "video.h"

#include <stdlib.h>
#include <string.h>

void eval_write_base64(FILE *f, const unsigned char *bytes, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        unsigned b = (unsigned)bytes[i] << 16 | (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0) |
                     (left > 2 ? bytes[i + 2] : 0);
        char four[5] = {digits[b >> 18], digits[b >> 12 & 63], left > 1 ? digits[b >> 6 & 63] : '=',
                        left > 2 ? digits[b & 63] : '='};
        fputs(four, f);
    }
}

static void put_bytes(void *ctx, void *bytes, int n) {
    fwrite(bytes, 1, (size_t)n, ctx);
}

/* The picture as an <img>; false: not written. */
static bool write_picture(FILE *out, const sac_image *image, double time_s) {
    sac_error err;
    int long_side = image->width > image->height ? image->width : image->height;
    int side = long_side < EVAL_THUMB_SIDE ? long_side : EVAL_THUMB_SIDE;
    int w = (int)((int64_t)image->width * side / long_side),
        h = (int)((int64_t)image->height * side / long_side);
    if (w < 1) w = 1;
    if (h < 1) h = 1;
    char *jpeg = NULL;
    size_t n = 0;
    uint8_t *small = malloc((size_t)w * (size_t)h * 3);
    FILE *f = small ? open_memstream(&jpeg, &n) : NULL;
    bool ok = f && sac_resize(small, w, h, image->rgb, image->width, image->height, SAC_FILTER_BOX,
                              SAC_RESIZE_PILLOW, &err) == SAC_OK;
    ok = ok && jpeg_write(put_bytes, f, w, h, small, 60);
    if (f && fclose(f)) ok = false;
    if (ok) {
        fprintf(out, "<img width=%d height=%d alt=\"", w, h);
        if (time_s >= 0)
            fprintf(out, "frame at %.1f s", time_s);
        else
            fputs("picture", out);
        fputs("\" src=\"data:image/jpeg;base64,", out);
        eval_write_base64(out, (const unsigned char *)jpeg, n);
        fputs("\">", out);
    }
    free(jpeg);
    free(small);
    return ok;
}

static sac_status on_frame(void *ctx, int64_t i, double time_s, const sac_image *frame, sac_error *err) {
    (void)i;
    (void)err;
    write_picture(ctx, frame, time_s);
    return SAC_OK;
}

static bool write_video(FILE *out, const char *path, double start_s, double end_s, sac_error *err) {
    const sac_frame_request request = {.has_num_frames = true, .num_frames = EVAL_THUMB_FRAMES};
    sac_video *video;
    sac_frame_plan plan = {0};
    if (sac_video_open(&video, path, NULL, err) != SAC_OK) return false;
    sac_status st = sac_video_plan(video, &request, &plan, err);
    if (st == SAC_OK && end_s > start_s && plan.source_fps > 0) /* of a stretch, its own frames */
        for (int64_t i = 0; i < plan.n_frames; i++) {
            double at = start_s + (end_s - start_s) * (double)i / (double)plan.n_frames;
            int64_t k = (int64_t)(at * plan.source_fps);
            int64_t least = i ? plan.index[i - 1] : 0;
            plan.index[i] = k < least ? least : k < plan.total_frames ? k : plan.total_frames - 1;
        }
    for (int64_t i = 1; st == SAC_OK && i < plan.n_frames; i++) /* each frame at most once */
        if (plan.index[i] <= plan.index[i - 1]) plan.n_frames = i;
    if (st == SAC_OK) st = sac_video_read(video, &plan, SAC_ROTATE_AUTO, on_frame, out, NULL, err);
    sac_frame_plan_free(&plan);
    sac_video_free(video);
    return st == SAC_OK;
}

static bool write_still(FILE *out, const char *path, const uint8_t *bytes, size_t n, sac_error *err) {
    sac_image image = {0};
    sac_status st =
        path ? sac_image_open(&image, path, NULL, err) : sac_image_decode(&image, bytes, n, NULL, err);
    bool ok = st == SAC_OK && write_picture(out, &image, -1);
    sac_image_free(&image);
    return ok;
}

void eval_thumbs_write(FILE *f, const char *folder, const eval_medium *m) {
    sac_error err;
    bool ok;
    if (m->base64) {
        uint8_t *bytes;
        size_t n;
        ok = eval_media_bytes(m, &bytes, &n, &err) == SAC_OK;
        if (ok) {
            ok = write_still(f, NULL, bytes, n, &err);
            free(bytes);
        }
    } else {
        char *path;
        ok = folder && eval_media_find(folder, m, &path, &err) == SAC_OK;
        if (ok) {
            ok = m->is_video ? write_video(f, path, m->start_s, m->end_s, &err)
                             : write_still(f, path, NULL, 0, &err);
            free(path);
        }
    }
    if (!ok) fputs("<em>cannot be shown</em>", f);
}
