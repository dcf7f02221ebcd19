/* video_absent.c - video.h in builds without FFmpeg's libraries. */
#ifndef SAC_VIDEO

#include "video.h"

#include <string.h>

static sac_status absent(sac_error *err) {
    return sac_fail(err, SAC_UNSUPPORTED,
                    "this build reads no video and no WebP: install FFmpeg's development packages and build "
                    "with -DSAC_VIDEO=ON");
}

const char *sac_video_library(const char **licence) {
    return *licence = NULL;
}

sac_video_limits sac_video_limits_default(void) {
    return (sac_video_limits){0};
}

sac_status sac_video_open(sac_video **out, const char *path, const sac_video_limits *limits, sac_error *err) {
    (void)limits;
    *out = NULL;
    return sac_fail_prefix(err, absent(err), "%s", path);
}

sac_status sac_video_open_bytes(sac_video **out, const uint8_t *bytes, size_t n_bytes,
                                const sac_video_limits *limits, sac_error *err) {
    (void)bytes, (void)n_bytes, (void)limits;
    *out = NULL;
    return absent(err);
}

void sac_video_free(sac_video *video) {
    (void)video;
}

const sac_video_info *sac_video_get_info(const sac_video *video) {
    (void)video;
    static const sac_video_info nothing;
    return &nothing;
}

sac_status sac_video_plan(const sac_video *video, const sac_frame_request *request, sac_frame_plan *plan,
                          sac_error *err) {
    (void)video, (void)request;
    memset(plan, 0, sizeof *plan);
    return absent(err);
}

bool sac_video_was_decoded(const sac_video *video) {
    (void)video;
    return false;
}

int64_t sac_video_key_of(const sac_video *video, int64_t index) {
    (void)video, (void)index;
    return -1;
}

sac_status sac_video_begin(sac_video *video, const sac_frame_plan *plan, sac_rotate rotate, sac_error *err) {
    (void)video, (void)plan, (void)rotate;
    return absent(err);
}

sac_status sac_video_next(sac_video *video, sac_image *frame, sac_error *err) {
    (void)video, (void)frame;
    return absent(err);
}

void sac_video_end(sac_video *video, sac_video_read_stats *stats) {
    (void)video;
    if (stats) memset(stats, 0, sizeof *stats);
}

sac_status sac_libav_decode_still(sac_image *out, const uint8_t *bytes, size_t n_bytes,
                                  const sac_image_limits *limits, sac_error *err) {
    (void)bytes, (void)n_bytes, (void)limits;
    memset(out, 0, sizeof *out);
    return absent(err);
}

#else
typedef int sac_video_is_present;
#endif
