/* positions.h - which rows of a prompt show a picture or a video, and the position numbers of all its rows.
 *
 * A row has three numbers: of time, of height and of width. For text they are the same number; families with
 * multi-axis rotary embedding (M-RoPE: Qwen2-VL, arXiv:2409.12191, sec. 2.1) number the cells of a picture's
 * grid along its axes. */
#ifndef SAC_LLM_POSITIONS_H
#define SAC_LLM_POSITIONS_H

#include "grid.h"

#include <stddef.h>

enum { SAC_POSITION_AXES = 3 };

/* Rows [first, first + n) of a prompt show one picture, one frame, or the frames of a video together. */
typedef struct sac_prompt_span {
    int64_t first, n;
    int media;           /* index of the picture or video in the conversation */
    int frame, n_frames; /* of its frames, which are shown */
    double time_step;    /* what a step of the grid adds to the number of time */
    double step_s;       /* seconds from one step of the grid to the next; 0 in pictures and lone frames */
    sac_grid grid; /* n == t * h * w rows in this order; all 0 where the rows form no grid, because newlines
                            stand between them or cells are left out */
    /* [n] cells of a video that the rows are, where a reducer leaves others out; of the grid it is these by their numbers in
     * it, and what comes after the span has the numbers that it has behind the whole grid. NULL: all of the grid. */
    const int32_t *cells;
} sac_prompt_span;

/* Numbers the rows of a prompt: out[SAC_POSITION_AXES][n]. The spans are in order and do not overlap. Returns
 * the number of the row that comes after them, for the first step. */
typedef int64_t (*sac_positions_fn)(const sac_prompt_span *spans, int n_spans, int64_t n, int32_t *out);

/* The numbers of a sequence's rows: those of its prompt by the family, those after it counted on from `next`. */
typedef struct sac_row_numbers {
    const int32_t *ids; /* [SAC_POSITION_AXES][stride]; NULL: every row's number is its place, on all axes */
    int64_t stride, n;  /* n rows of ids hold */
    int64_t next;       /* number of row n */
} sac_row_numbers;

static inline int64_t sac_row_number(const sac_row_numbers *r, int axis, int64_t row) {
    if (!r->ids) return row;
    return row < r->n ? r->ids[axis * r->stride + row] : r->next + (row - r->n);
}

/* Only the first n rows have the numbers that were given; what comes after them goes on behind the largest. */
void sac_row_numbers_cut(sac_row_numbers *r, int64_t n);

/* Qwen2-VL and Qwen2.5-VL (arXiv:2409.12191, sec. 2.1): text counts on all axes alike; the cells of a grid that begins
 * at s have s + floor(step of time * time_step), s + row, s + column; what comes after it goes on behind the largest
 * of these numbers, as the models were trained. */
int64_t sac_positions_mrope(const sac_prompt_span *spans, int n_spans, int64_t n, int32_t *out);
/* The same, but what comes after a grid goes on at s + its longer side, whatever its time: transformers from 5.3 on.
 * Pictures get the same numbers; long videos do not. */
int64_t sac_positions_mrope_grid(const sac_prompt_span *spans, int n_spans, int64_t n, int32_t *out);

/* Every row by its place in the sequence, on all axes. */
int64_t sac_positions_plain(const sac_prompt_span *spans, int n_spans, int64_t n, int32_t *out);

#endif
