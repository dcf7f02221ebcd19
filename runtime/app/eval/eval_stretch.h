/* eval_stretch.h - videos that are shown otherwise than whole and in one piece: a stretch of one (MVBench's bounds,
 * StreamingBench's time of the question), and frames with the subtitles between them (LongVideoBench). Frames are decoded
 * here and handed over as pixels; the model's own sampling and --fps, --num-frames and --max-frames choose them. */
#ifndef APP_EVAL_STRETCH_H
#define APP_EVAL_STRETCH_H

#include "conversation.h"

#include <jansson.h>

/* At most so many frames of a stretch where neither option nor model limits them. */
enum { EVAL_STRETCH_FRAMES = 64 };

/* Frames from start_s to end_s as one video, with their times. */
sac_status eval_stretch_add(conversation *c, const char *path, double start_s, double end_s,
                            const settings *s, const sac_model *model, sac_error *err);

/* Frames of the whole video as pictures, with each subtitle that covers a frame where it belongs in time.
 * subtitles: [{"start", "end" in seconds of the video, "text"}], in order. */
sac_status eval_stretch_add_between(conversation *c, const char *path, const json_t *subtitles,
                                    const settings *s, const sac_model *model, sac_error *err);

#endif
