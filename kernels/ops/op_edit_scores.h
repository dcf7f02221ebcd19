#ifndef SAC_OP_EDIT_SCORES_H
#define SAC_OP_EDIT_SCORES_H

#include "device.h"

/* Of one token: x + bias, then times `repetition` below 0 and over it otherwise, then minus `less`; each step rounded to f32.
 * 0, 1 and 0 leave a number as it is (but -0 + 0 is 0). */
typedef struct sac_score_edit {
    int32_t id;
    float bias, repetition, less;
} sac_score_edit;

/* Changes scores before a token is chosen from them, in place: those whose bit of a mask is 0 become -INFINITY, whatever they were,
 * of the others those that are listed are edited. Exact: no backend may round otherwise. Lists and masks may be pinned memory of
 * the host. */
typedef struct sac_edit_scores_args {
    float *x;          /* [n_rows][stride] */
    int64_t stride, n; /* n scores a row, 1 to INT32_MAX */
    int n_rows;        /* at most 65,535 */
    int most;          /* edits of a row */
    const int32_t *n_edits;      /* [n_rows], each 0 to most */
    const sac_score_edit *edits; /* [n_rows][edit_stride]; in a row no id twice, each 0 to n - 1 */
    int64_t edit_stride;
    const int32_t *is_masked;    /* [n_rows] 1: the row has a mask; 0: all may come. NULL: no row has one */
    const uint32_t *masks;       /* [n_rows][mask_stride] bit id % 32 of word id / 32 */
    int64_t mask_stride;         /* words, at least (n + 31) / 32 */
} sac_edit_scores_args;

#endif
