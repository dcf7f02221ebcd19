/* linear_float_tmpl.h - linear over F32, F16 and BF16 weights: which of the two ways. */
#include "linear_dot_tmpl.h"
#include "linear_gemm_tmpl.h"

sac_status SAC_ISA(sac_linear_float)(const sac_stream *s, const sac_linear_args *a) {
    if (a->x.rows == 0) return SAC_OK;
    if (a->x.rows <= LINEAR_FEW_ROWS || a->steady)
        linear_dot(s, a);
    else
        linear_gemm(s, a);
    return SAC_OK;
}
