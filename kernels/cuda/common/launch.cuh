/* launch.cuh - how a kernel is started: a launch_plan says what the driver is told, launch() tells it. */
#ifndef SAC_KERNELS_LAUNCH_CUH
#define SAC_KERNELS_LAUNCH_CUH

#include "cuda_ops.h"
#include "tuning.h"

#include <cuda_runtime.h>

#include <atomic>

namespace sac {

static inline cudaStream_t cuda_stream(const sac_stream *s) {
    return (cudaStream_t)s->native;
}
/* Of a call of the runtime. What it refused is forgotten: the next one to ask would take it for its own. */
static inline sac_status status_of(cudaError_t e) {
    if (e == cudaSuccess) return SAC_OK;
    cudaGetLastError();
    return SAC_DEVICE;
}

struct launch_plan {
    dim3 grid, block;
    size_t shared_bytes = 0; /* of a block, besides what the kernel declares */
    /* Bytes of shared memory that the kernel may have: above 48 KiB the driver wants to hear of it. 0: it need
     * not. The limit is the kernel's, whichever thread launches it: every launch on a card gives the same. */
    int shared_limit = 0;
    int carveout = 0;      /* percent of a processor's memory that is shared memory; 0: as the driver likes */
    int cluster = 0;       /* blocks of a cluster, along x, from sm_90 on; 0: there are no clusters */
    bool early = false;    /* may start before the kernel before it is through, from sm_90 on (early.cuh) */
    bool together = false; /* all blocks run at the same time, or none */
};

/* A plan like p that starts early. */
static inline launch_plan early(launch_plan p) {
    p.early = true;
    return p;
}
/* A kernel of a step: it starts early, and the processor's memory stays split as the other kernels have
 * it. */
static inline launch_plan of_step(launch_plan p) {
    p.early = true;
    p.carveout = STEP_CARVEOUT;
    return p;
}

enum { MOST_ATTRIBUTES = 3 };

/* The plan as the driver wants it. The attributes have to live as long as what is returned. */
static inline cudaLaunchConfig_t launch_config(const sac_stream *s, const launch_plan &p,
                                               cudaLaunchAttribute attributes[MOST_ATTRIBUTES]) {
    const bool is_hopper = s->device->compute >= 90; /* or later */
    cudaLaunchConfig_t c = {};
    c.gridDim = p.grid, c.blockDim = p.block;
    c.dynamicSmemBytes = p.shared_bytes;
    c.stream = cuda_stream(s);
    c.attrs = attributes;
    if (p.together) {
        attributes[c.numAttrs].id = cudaLaunchAttributeCooperative;
        attributes[c.numAttrs++].val.cooperative = 1;
    }
    if (p.early && is_hopper && !s->device->no_early) {
        attributes[c.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[c.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (p.cluster && s->device->has_clusters) {
        attributes[c.numAttrs].id = cudaLaunchAttributeClusterDimension;
        attributes[c.numAttrs].val.clusterDim.x = (unsigned)p.cluster;
        attributes[c.numAttrs].val.clusterDim.y = attributes[c.numAttrs].val.clusterDim.z = 1;
        c.numAttrs++;
    }
    return c;
}

/* How much of a processor's memory is to be shared memory: the driver is told once a kernel and card. */
static inline void split_memory(const sac_stream *s, const void *kernel, int percent) {
    static std::atomic<uintptr_t> told[64];
    uintptr_t key = (uintptr_t)kernel ^ (uintptr_t)s->device->index << 56;
    for (std::atomic<uintptr_t> &slot : told) {
        uintptr_t none = 0;
        if (slot.load() == key) return;
        if (slot.load() == 0 && slot.compare_exchange_strong(none, key)) break;
        if (none == key) return;
    }
    (void)status_of(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, percent));
}
template <typename... P> static inline sac_status allow_shared(void (*kernel)(P...), int n_bytes) {
    return status_of(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, n_bytes));
}
template <typename... P> static inline sac_status attributes_of(void (*kernel)(P...), cudaFuncAttributes *f) {
    return status_of(cudaFuncGetAttributes(f, kernel));
}
/* Whether this program has a kernel's code for sm_90a: elsewhere its body is empty and takes few
 * registers. */
template <typename... P> static inline sac_status is_built_for_hopper(void (*kernel)(P...), bool *is_built) {
    const int fewest = 64;
    cudaFuncAttributes f;
    SAC_TRY(attributes_of(kernel, &f));
    *is_built = f.numRegs >= fewest;
    return SAC_OK;
}

/* UNSUPPORTED where blocks are to run together and the card has no room for all of them. */
template <typename... P, typename... A>
static inline sac_status launch(const sac_stream *s, const launch_plan &p, void (*kernel)(P...), A... args) {
    if (p.shared_limit) SAC_TRY(allow_shared(kernel, p.shared_limit));
    if (p.carveout) split_memory(s, (const void *)kernel, p.carveout);
    cudaLaunchAttribute attributes[MOST_ATTRIBUTES] = {};
    cudaLaunchConfig_t c = launch_config(s, p, attributes);
    cudaError_t e = cudaLaunchKernelEx(&c, kernel, (P)args...);
    sac_status st = status_of(e);
    return e == cudaErrorCooperativeLaunchTooLarge ? SAC_UNSUPPORTED : st;
}

} // namespace sac

#endif
