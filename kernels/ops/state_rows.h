#ifndef SAC_STATE_ROWS_H
#define SAC_STATE_ROWS_H

#include <stdint.h>

/* Rows of one sequence that follow one another, and what a recurrence knows of the rows before them: afterwards it
 * knows these too. Parts of a call follow one another in its rows. */
typedef struct sac_state_rows {
    int64_t n;
    float *state; /* in the memory where ops run; zeros before a sequence's first row */
} sac_state_rows;

#endif
