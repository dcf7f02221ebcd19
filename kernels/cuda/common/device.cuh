/* device.cuh - what every kernel's file needs. */
#ifndef SAC_KERNELS_DEVICE_CUH
#define SAC_KERNELS_DEVICE_CUH

#include "activation.cuh"
#include "early.cuh"
#include "launch.cuh"
#include "numbers.cuh"
#include "reduce.cuh"
#include "shapes.cuh"

namespace sac {

/* An address as instructions on shared memory want it. */
__device__ __forceinline__ uint32_t shared_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

} // namespace sac

#endif
