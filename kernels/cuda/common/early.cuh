/* early.cuh - kernels that start before the one before them is through ("programmatic dependent launch" of
 * sm_90 and later; on older cards these functions do nothing and kernels follow each other as ever).
 *
 * A step is a few hundred kernels of microseconds each, so their starts count. A kernel that is launched
 * early (launch.cuh) may run while the one before it still writes. Until wait_for_last() it may read only
 * what no kernel writes (weights) or what was written before a launch that was not early (`packs` in
 * context.cuh), and every block has to call it. start_next() lets the next kernel come as soon as there is
 * room on the card. */
#ifndef SAC_KERNELS_EARLY_CUH
#define SAC_KERNELS_EARLY_CUH

#include <stdint.h>

namespace sac {

__device__ __forceinline__ void start_next(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_last(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Whether the op has nothing to do (`skip` in ops.h). Only after wait_for_last(). */
__device__ __forceinline__ bool is_skipped(const int32_t *skip) {
    return skip && *skip != 0;
}

/* Brings a line to the L2 cache. Allowed before wait_for_last() whoever writes the line: no value is
 * taken. */
__device__ __forceinline__ void fetch_soon(const void *p) {
#ifdef __CUDA_ARCH__
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p) : "memory");
#endif
    (void)p;
}
/* The same for n_bytes, a multiple of 16; from sm_90 on. */
__device__ __forceinline__ void fetch_soon(const void *p, int n_bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(p), "r"(n_bytes) : "memory");
#else
    (void)p, (void)n_bytes;
#endif
}

} // namespace sac

#endif
