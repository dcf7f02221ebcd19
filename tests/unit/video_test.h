/* video_test.h - what the tests of video files share: reading frames into memory. */
#ifndef SAC_VIDEO_TEST_H
#define SAC_VIDEO_TEST_H

#include "test.h"
#include "video.h"

#define GOLDEN "tests/golden/video/"

typedef struct frame_list {
    sac_image frames[128]; /* owned */
    double time_s[128];
    int n;
} frame_list;

static inline void free_frames(frame_list *list) {
    for (int i = 0; i < list->n; i++) free(list->frames[i].rgb);
    list->n = 0;
}

static inline sac_status collect(void *ctx, int64_t i, double time_s, const sac_image *frame,
                                 sac_error *err) {
    frame_list *list = ctx;
    size_t n_bytes = (size_t)frame->width * (size_t)frame->height * 3;
    if (i != list->n || list->n == 128) return sac_fail(err, SAC_INTERNAL, "frame %d out of turn", (int)i);
    sac_image copy = {malloc(n_bytes), frame->width, frame->height};
    memcpy(copy.rgb, frame->rgb, n_bytes);
    list->frames[list->n] = copy;
    list->time_s[list->n++] = time_s;
    return SAC_OK;
}

/* num_frames 0 = all */
static inline sac_status read_frames(sac_video *video, int num_frames, sac_rotate rotate, frame_list *list,
                                     sac_video_read_stats *stats, sac_error *err) {
    sac_frame_request request = {.has_num_frames = num_frames > 0, .num_frames = num_frames};
    sac_frame_plan plan;
    list->n = 0;
    SAC_TRY(sac_video_plan(video, &request, &plan, err));
    sac_status st = sac_video_read(video, &plan, rotate, collect, list, stats, err);
    sac_frame_plan_free(&plan);
    return st;
}

/* The whole file, freed by the caller. */
static inline uint8_t *load_file(const char *path, size_t *n_bytes) {
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s is missing", path);
    fseek(f, 0, SEEK_END);
    *n_bytes = (size_t)ftell(f);
    rewind(f);
    uint8_t *bytes = malloc(*n_bytes);
    if (fread(bytes, 1, *n_bytes, f) != *n_bytes) fail_msg("%s cannot be read", path);
    fclose(f);
    return bytes;
}

#endif
