/* heads.h - heads of rows as rows of matrices, for ops that take each head by itself. Of the block alone. */
#ifndef SAC_LLM_HEADS_H
#define SAC_LLM_HEADS_H

#include "ops.h"

/* Heads of some rows, each `step` columns behind the one before. */
typedef struct head_view {
    sac_mat rows;
    int64_t step;
} head_view;

/* Heads are rows of matrices of a head's width: of one where all lie at even distances, else of one for each head or, where
 * rows are fewer, for each row. */
typedef struct head_cut {
    int64_t n; /* matrices */
    bool by_row, whole;
} head_cut;

static inline bool is_even(head_view v, int64_t n_heads) {
    return v.rows.rows == 1 || v.rows.stride == n_heads * v.step;
}

/* How the heads of both are cut, n_heads a row. */
static inline head_cut cut_heads(head_view a, head_view b, int64_t n_heads) {
    const bool whole = is_even(a, n_heads) && is_even(b, n_heads), by_row = a.rows.rows < n_heads;
    return (head_cut){whole ? 1 : by_row ? a.rows.rows : n_heads, by_row, whole};
}

/* Matrix i of the cut, dim wide. */
static inline sac_mat heads_of(head_view v, head_cut cut, int64_t i, int64_t n_heads, int64_t dim) {
    const int64_t first = cut.whole ? 0 : i * (cut.by_row ? v.rows.stride : v.step);
    sac_mat m = {(uint8_t *)v.rows.data + sac_dtype_row_bytes(v.rows.dtype, first), v.rows.rows * n_heads, dim, v.step,
                 v.rows.dtype};
    if (cut.whole) return m;
    m.rows = cut.by_row ? n_heads : v.rows.rows;
    m.stride = cut.by_row ? v.step : v.rows.stride;
    return m;
}

#endif
