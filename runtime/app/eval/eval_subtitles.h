/* eval_subtitles.h - the subtitles (SubRip, .srt) that are on the screen when a frame is looked at.
 *
 * The two projects choose differently, both kept:
 * - Video-MME (the script that its README names): for each frame the first subtitle with start < time < end,
 * in whole milliseconds; a subtitle is repeated for every frame that it covers. Marks such as <i> are
 * dropped.
 * - lmms-eval: each subtitle once that covers any frame, by frame numbers, int(start * fps) <= number <
 *   int(end * fps); only text inside <font color="white" size=".72c">, the mark of the published files,
 * counts. There the order is that of a Python set, and the frames are 32 whatever the model sees; here it is
 * the order of time, and the frames that the model sees. */
#ifndef APP_EVAL_SUBTITLES_H
#define APP_EVAL_SUBTITLES_H

#include "saccade/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EVAL_SUBTITLES_MAX_BYTES ((size_t)16 << 20)

typedef struct eval_subtitle {
    int64_t start_ms, end_ms;
    char *text; /* lines joined with a blank, marks kept */
} eval_subtitle;

typedef struct eval_subtitles {
    eval_subtitle *items;
    size_t n;
} eval_subtitles;

/* On failure, too, eval_subtitles_free frees what there is. NOT_FOUND when there is no such file. */
sac_status eval_subtitles_read(eval_subtitles *list, const char *path, sac_error *err);
sac_status eval_subtitles_parse(eval_subtitles *list, const char *text, size_t n_bytes, const char *name,
                                sac_error *err);
void eval_subtitles_free(eval_subtitles *list);

/* Those at the times of n frames, one a line; to free; NULL = out of memory. *n_lines: how many. fps: of the
 * source, for the rule of lmms-eval. */
char *eval_subtitles_official(const eval_subtitles *list, const double *time_s, size_t n, size_t *n_lines);
char *eval_subtitles_lmms(const eval_subtitles *list, const double *time_s, size_t n, double fps,
                          size_t *n_lines);

#endif
