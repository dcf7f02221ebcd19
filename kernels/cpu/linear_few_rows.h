/* linear_few_rows.h - when rows of x are few. */
#ifndef SAC_LINEAR_FEW_ROWS_H
#define SAC_LINEAR_FEW_ROWS_H

#include "op_linear.h"

/* Rows of x up to which weights are read as they lie; the same at every level of the processor. */
#define LINEAR_FEW_ROWS SAC_LINEAR_FEW_ROWS

#endif
