/* video_read.c - a whole pass over a video's chosen frames. */
#include "video.h"

static sac_status read_frames(sac_video *v, const sac_frame_plan *plan, sac_frame_fn on_frame, void *ctx,
                              sac_error *err) {
    for (int64_t i = 0; i < plan->n_frames; i++) {
        sac_image frame;
        SAC_TRY(sac_video_next(v, &frame, err));
        SAC_TRY(on_frame(ctx, i, plan->time_s[i], &frame, err));
    }
    return SAC_OK;
}

sac_status sac_video_read(sac_video *v, const sac_frame_plan *plan, sac_rotate rotate, sac_frame_fn on_frame,
                          void *ctx, sac_video_read_stats *stats, sac_error *err) {
    SAC_TRY(sac_video_begin(v, plan, rotate, err));
    sac_status st = read_frames(v, plan, on_frame, ctx, err);
    sac_video_end(v, stats);
    return st;
}
