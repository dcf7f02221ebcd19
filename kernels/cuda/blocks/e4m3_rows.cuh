/* e4m3_rows.cuh - rows of x rounded to e4m3 as a checkpoint asks, as codes and scales apart. */
#ifndef SAC_KERNELS_E4M3_ROWS_CUH
#define SAC_KERNELS_E4M3_ROWS_CUH

#include "cuda_ops.h"

namespace sac::blocks {

struct e4m3_rows_job {
    sac_mat x;     /* f16 or bf16, aligned (shapes.cuh) */
    void *codes;   /* [rows][cols], a byte each; halves: as f16, of each four 0, 2, 1, 3 */
    float *scales; /* [rows]; by_units: [cols / 128, rounded up][rows] */
    float scale;   /* of all, or 0 */
    bool by_units; /* 128 elements share a scale, not a row */
    bool halves;
};
sac_status e4m3_rows(const sac_stream *s, const e4m3_rows_job &j);

} // namespace sac::blocks

#endif
