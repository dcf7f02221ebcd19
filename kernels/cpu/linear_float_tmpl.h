/* linear_float_tmpl.h - linear over F32, F16 and BF16 weights: which of the two ways. */
#include "linear_dot_tmpl.h"
#include "linear_gemm_tmpl.h"

#ifndef LINEAR_FLOAT
#define LINEAR_FLOAT SAC_ISA(sac_linear_float)
#endif

static void pack_floats(const sac_linear_args *a, int64_t j, int64_t n, int64_t k0, int64_t k, float *panel) {
    const void *row[GEMM_PANEL];
    const sac_tensor *w = &a->w.tensor;
    size_t row_bytes = sac_dtype_row_bytes(w->dtype, a->x.cols);
    const char *first = (const char *)w->data + (size_t)j * row_bytes + sac_dtype_row_bytes(w->dtype, k0);
    for (int64_t i = 0; i < n; i++) row[i] = first + (size_t)i * row_bytes;
    SAC_ISA(sac_pack)(w->dtype, row, n, k, panel, GEMM_PANEL);
}

sac_status LINEAR_FLOAT(const sac_stream *s, const sac_linear_args *a) {
    if (a->x.rows == 0) return SAC_OK;
    if (a->n_unsteady)
        linear_gemm_both(s, a, pack_floats, dot_rows);
    else if (a->x.rows <= LINEAR_FEW_ROWS || a->steady)
        linear_dot(s, a);
    else
        linear_gemm(s, a, pack_floats);
    return SAC_OK;
}
