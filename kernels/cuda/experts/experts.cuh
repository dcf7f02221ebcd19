/* experts.cuh - what the products by expert share: where an expert's matrix is. */
#ifndef SAC_KERNELS_EXPERTS_CUH
#define SAC_KERNELS_EXPERTS_CUH

#include "device.cuh"

namespace sac::experts {

/* All of a kind: expert e's begins e * distance elements behind the first. */
struct matrices {
    const void *first;
    int64_t distance;
};

/* The two products: a warp for each output of each row; tiles of an expert's rows and outputs. Each answers UNSUPPORTED
 * where it does not fit. */
sac_status expert_rows(const sac_stream *s, const sac_expert_linear_args *a, matrices w);
sac_status expert_tiles(const sac_stream *s, const sac_expert_linear_args *a, matrices w);

} // namespace sac::experts

#endif
