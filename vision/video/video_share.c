/* video_share.c - cutting a pass over a video into parts that are decoded side by side. */
#include "video.h"

/* Frames that are decoded for place i of the plan, when the frames before it have been. */
static int64_t cost_of(const sac_video *v, const sac_frame_plan *plan, int64_t i, bool *begins) {
    int64_t from = sac_video_key_of(v, plan->index[i]);
    *begins = i == 0 || from > plan->index[i - 1];
    if (!*begins) from = plan->index[i - 1] + 1;
    return plan->index[i] - from + 1;
}

/* All that is decoded; 0 where decoding cannot start in the middle. */
static int64_t whole_cost(const sac_video *v, const sac_frame_plan *plan) {
    int64_t sum = 0;
    bool begins;
    for (int64_t i = 0; i < plan->n_frames; i++) {
        if (sac_video_key_of(v, plan->index[i]) < 0) return 0;
        sum += cost_of(v, plan, i, &begins);
    }
    return sum;
}

int sac_video_share(const sac_video *v, const sac_frame_plan *plan, int n_most, int64_t *starts) {
    int64_t total = sac_video_was_decoded(v) ? 0 : whole_cost(v, plan), done = 0;
    int n = 1;
    if (total / SAC_VIDEO_SHARE_FRAMES < n_most) n_most = (int)(total / SAC_VIDEO_SHARE_FRAMES);
    starts[0] = 0;
    for (int64_t i = 0; i < plan->n_frames && n < n_most; i++) {
        bool begins;
        int64_t cost = cost_of(v, plan, i, &begins);
        if (begins && i > 0 && done * n_most >= total * n) starts[n++] = i;
        done += cost;
    }
    starts[n] = plan->n_frames;
    return n;
}
