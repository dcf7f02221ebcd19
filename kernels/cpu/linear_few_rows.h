/* linear_few_rows.h - when rows of x are few. */
#ifndef SAC_LINEAR_FEW_ROWS_H
#define SAC_LINEAR_FEW_ROWS_H

/* Rows of x up to which weights are read as they lie. Sums of few rows may have another order than those of
 * many: that begins at the same number at every level of the processor. */
#define LINEAR_FEW_ROWS 8

#endif
