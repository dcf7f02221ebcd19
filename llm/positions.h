/* positions.h - which rows of a prompt show a picture or a video, and the position numbers of all its rows.
 *
 * A row has three numbers: of time, of height and of width. For text they are the same number; families with
 * multi-axis rotary embedding (M-RoPE: Qwen2-VL, arXiv:2409.12191, sec. 2.1) number the cells of a picture's
 * grid along its axes. */
#ifndef SAC_LLM_POSITIONS_H
#define SAC_LLM_POSITIONS_H

#include "grid.h"

enum { SAC_POSITION_AXES = 3 };

/* Rows [first, first + n) of a prompt show one picture, one frame, or the frames of a video together. */
typedef struct sac_prompt_span {
    int64_t first, n;
    int media;           /* index of the picture or video in the conversation */
    int frame, n_frames; /* of its frames, which are shown */
    double step_s;       /* seconds from one step of the grid to the next; 0 in pictures and lone frames */
    sac_grid grid; /* n == t * h * w rows in this order; all 0 where the rows form no grid, because newlines
                            stand between them or cells are left out */
} sac_prompt_span;

/* Numbers the rows of a prompt: out[SAC_POSITION_AXES][n]. The spans are in order and do not overlap. Returns
 * the number of the row that comes after them, for the first step. */
typedef int64_t (*sac_positions_fn)(const sac_prompt_span *spans, int n_spans, int64_t n, int32_t *out);

/* Every row by its place in the sequence, on all axes. */
int64_t sac_positions_plain(const sac_prompt_span *spans, int n_spans, int64_t n, int32_t *out);

#endif
