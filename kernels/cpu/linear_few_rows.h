/* linear_few_rows.h - when rows of x are few. */
#ifndef SAC_LINEAR_FEW_ROWS_H
#define SAC_LINEAR_FEW_ROWS_H

#include "cpu.h"

/* Rows of x up to which weights are read as they lie; the same at every level of the processor. */
#define LINEAR_FEW_ROWS SAC_LINEAR_FEW_ROWS

/* The rows of a call of both kinds (n_unsteady), apart. */
static inline sac_linear_args linear_unsteady_rows(const sac_linear_args *a) {
    sac_linear_args part = *a;
    part.x = sac_mat_rows(a->x, 0, a->n_unsteady);
    part.y = sac_mat_rows(a->y, 0, a->n_unsteady);
    part.steady = false;
    part.n_unsteady = 0;
    return part;
}

static inline sac_linear_args linear_steady_rows(const sac_linear_args *a) {
    sac_linear_args part = *a;
    part.x = sac_mat_rows(a->x, a->n_unsteady, a->x.rows - a->n_unsteady);
    part.y = sac_mat_rows(a->y, a->n_unsteady, a->y.rows - a->n_unsteady);
    part.n_unsteady = 0;
    return part;
}

/* One kind after the other: weights are read twice. */
static inline sac_status linear_apart(const sac_stream *s, const sac_linear_args *a, sac_linear_fn linear) {
    const sac_linear_args unsteady = linear_unsteady_rows(a), steady = linear_steady_rows(a);
    SAC_TRY(linear(s, &unsteady));
    return linear(s, &steady);
}

#endif
