/* Video files of strangers: containers, codecs, the table of frames, sampling, reading with and without
 * turning. The first byte chooses the request, so that jumps and forward reading are both met. */
#include "fuzz.h"

#include "video.h"

#include <stdlib.h>
#include <string.h>

typedef struct reading {
    const sac_video_limits *limits;
    const sac_frame_plan *plan;
    int64_t n_frames;
} reading;

static sac_status look(void *ctx, int64_t i, double time_s, const sac_image *frame, sac_error *err) {
    reading *r = ctx;
    (void)err;
    if (i != r->n_frames++ || time_s != r->plan->time_s[i]) abort();
    int64_t n_pixels = (int64_t)frame->width * frame->height;
    if (frame->width < 1 || frame->height < 1 || n_pixels > r->limits->max_pixels) abort();
    uint32_t sum = 0; /* reads every pixel: none may be missing */
    for (int64_t k = 0; k < n_pixels * 3; k++) sum += frame->rgb[k];
    return sum == UINT32_MAX ? SAC_CANCELLED : SAC_OK;
}

static sac_status read_some(sac_video *video, unsigned choice, const sac_video_limits *limits,
                            sac_error *err) {
    const sac_video_info *info = sac_video_get_info(video);
    if (info->n_frames < 1 || info->n_frames > limits->max_frames) abort();
    if (!(info->fps >= 0) || !(info->duration_s >= 0)) abort();
    sac_frame_request request = {.has_num_frames = (choice & 1) != 0,
                                 .num_frames = 1 + (choice >> 4),
                                 .has_fps = (choice & 2) != 0,
                                 .fps = 0.5 + (choice >> 4),
                                 .has_max_frames = true,
                                 .max_frames = 12};
    sac_frame_plan plan;
    SAC_TRY(sac_video_plan(video, &request, &plan, err));
    reading r = {limits, &plan, 0};
    sac_rotate rotate = choice & 4 ? SAC_ROTATE_NONE : SAC_ROTATE_AUTO;
    sac_status st = sac_video_read(video, &plan, rotate, look, &r, NULL, err);
    if (st == SAC_OK && r.n_frames != plan.n_frames) abort();
    sac_frame_plan_free(&plan);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    const sac_video_limits limits = {.max_bytes = 1 << 20,
                                     .max_pixels = 1 << 14,
                                     .max_frames = 200,
                                     .max_duration_s = 600,
                                     .n_threads = 1};
    sac_video *video;
    sac_error err = {0};
    sac_status st = sac_video_open_bytes(&video, data + 1, size - 1, &limits, &err);
    if (st == SAC_OK)
        st = read_some(video, data[0], &limits, &err);
    else if (video)
        abort();
    if (st != SAC_OK && (!err.text[0] || strchr(err.text, '\n'))) abort();
    sac_video_free(video);
    return 0;
}
