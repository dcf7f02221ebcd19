/* sampling.h - which frames of a video a model gets to see. Pure arithmetic, no decoding.
 *
 * One rule for everything. Each request gives a number of frames, the smallest number wins, and that many are
 * spread evenly over the whole video:
 *   all         total_frames
 *   num_frames  N
 *   fps         floor(duration_s * fps) in doubles, where duration_s = total_frames / source fps
 *   max_frames  N
 *   max_pixels  floor(max_pixels / pixels of one frame)
 *   index[i]  = numpy.linspace(0, total_frames - 1, n, dtype=int)[i]
 * At least one frame is always taken; when n is total_frames, that is every frame. This is what vLLM does
 * with num_frames and fps, and what LongVA, LLaVA and lmms-eval do with num_frames (they repeat frames when a
 * video has fewer than asked for; here, as in vLLM, the video's own number is one more upper bound).
 * SmolVLM's own code (skip_s) spreads them over what it leaves of the video: linspace(first, last, n, dtype=int).
 * transformers counts fps the same way but takes arange(0, total, total/n), which never reaches the last
 * frame. Frames are spread by index also where the frame rate varies, as all of these do; the true times are
 * reported. */
#ifndef SAC_SAMPLING_H
#define SAC_SAMPLING_H

#include "status.h"

#include <stdbool.h>
#include <stdint.h>

#define SAC_SAMPLING_MAX_FPS 1000.0

/* How the frames that are asked for by fps lie. */
typedef enum sac_frame_pace {
    SAC_PACE_EVEN,    /* spread evenly, as said above */
    SAC_PACE_SECONDS, /* by seconds (pace.h): GLM-4.1V */
    SAC_PACE_LENGTH,  /* the same, their number by the video's length instead of fps: GLM-4.6V */
} sac_frame_pace;

enum { SAC_PACE_MOST_S = 36000 };

/* A zeroed struct asks for every frame. (The public sac_sampling is about choosing tokens;
 * hence this name.) */
typedef struct sac_frame_request {
    bool has_fps, has_num_frames, has_max_frames, has_max_pixels;
    double fps;             /* frames a second of video: above 0, at most SAC_SAMPLING_MAX_FPS */
    int64_t num_frames;     /* at least 1 */
    int64_t max_frames;     /* at least 1 */
    bool max_frames_silent; /* what the context holds, which nobody asked for: not in the text unless it
                               decides */
    /* SmolVLM's way, where above 0: fps asks for the nearest number of frames, not for what is full; and of a video longer
     * than skip_most frames at fps and twice skip_s, so many seconds at both ends are left out. */
    double skip_s;
    int64_t skip_most;
    sac_frame_pace pace;
    double most_s; /* of SAC_PACE_SECONDS: a longer video gets no more frames than one of so many seconds */
    bool key_frames; /* each frame chosen gives way to the key frame before it, each taken once; for sac_video_plan */
    int64_t max_pixels; /* of all chosen frames together */
    int64_t
        frame_pixels; /* what one frame costs of max_pixels, after the model's resize; 0 = as in the source */
} sac_frame_request;

/* What is known of a video, or of a list of pictures. */
typedef struct sac_sampling_source {
    int64_t total_frames; /* at least 1 */
    double fps;           /* average; 0 = unknown, then asking for an fps is refused */
    int64_t frame_pixels; /* width times height */
} sac_sampling_source;

/* name, text */
#define SAC_SAMPLING_RULE_LIST(X)                                                                            \
    X(ALL, "all frames")                                                                                     \
    X(NUM_FRAMES, "num_frames")                                                                              \
    X(FPS, "fps")                                                                                            \
    X(MAX_FRAMES, "max_frames")                                                                              \
    X(MAX_PIXELS, "max_pixels")

typedef enum sac_sampling_rule {
#define X(name, text) SAC_SAMPLED_BY_##name,
    SAC_SAMPLING_RULE_LIST(X)
#undef X
} sac_sampling_rule;

/* The decision and everything needed to report it. A zeroed plan may be freed. */
typedef struct sac_frame_plan {
    int64_t n_frames;
    int64_t *index;       /* [n_frames], ascending, in presentation order, each frame at most once */
    double *time_s;       /* [n_frames]; index / fps (0 where fps is unknown) unless a decoder knows better */
    double source_fps;    /* 0 = unknown */
    double duration_s;    /* total_frames / source_fps; 0 = unknown */
    int64_t total_frames; /* of the source */
    sac_sampling_rule rule; /* the request that gave the smallest number; the earliest in the list on a tie */
    char text[160];         /* one line, e.g. "16 of 325 frames by max_frames 16 (fps 2 asks for 26)" */
} sac_frame_plan;

const char *sac_sampling_rule_text(sac_sampling_rule rule); /* "num_frames" */

/* BAD_ARGUMENT, in one line that names the option, when a request makes no sense by itself, so that options
 * can be refused before a file is opened. */
sac_status sac_sampling_check(const sac_frame_request *request, sac_error *err);

/* Checks the request, too. BAD_ARGUMENT when max_pixels is less than one frame; BAD_FILE for an empty source,
 * or when an fps is asked for and the source's is unknown. On failure *plan is empty. */
sac_status sac_sampling_plan(sac_frame_plan *plan, const sac_frame_request *request,
                             const sac_sampling_source *source, sac_error *err);
void sac_frame_plan_free(sac_frame_plan *plan);

/* numpy.linspace(0, total - 1, n, dtype=int)[i], for 0 <= i < n <= total. */
int64_t sac_linspace_index(int64_t total, int64_t n, int64_t i);

#endif
