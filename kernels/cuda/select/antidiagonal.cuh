/* antidiagonal.cuh - the part of antidiagonal_sums for Hopper. */
#ifndef SAC_KERNELS_ANTIDIAGONAL_CUH
#define SAC_KERNELS_ANTIDIAGONAL_CUH

#include "context.cuh"

namespace sac::select {

/* Sums of the first n queries' blocks alone, which are whole. UNSUPPORTED where it does not fit. */
sac_status antidiagonal_sums_hopper(const sac_stream *s, const sac_antidiagonal_sums_args *a, int64_t n);

} // namespace sac::select

#endif
