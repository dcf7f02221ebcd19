/* cluster.cuh - a row of numbers shared by the blocks of a cluster (sm_90 and later; one block before).
 * Blocks meet at cluster_sync() and read each other's shared memory. */
#ifndef SAC_KERNELS_CLUSTER_CUH
#define SAC_KERNELS_CLUSTER_CUH

#include "device.cuh"

enum { CLUSTER_THREADS = 1024, CLUSTER_MAX = 8 /* every card of sm_90 can place clusters of 8 */ };

__device__ __forceinline__ int cluster_rank(void) {
#if __CUDA_ARCH__ >= 900
    uint32_t r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return (int)r;
#else
    return 0;
#endif
}
__device__ __forceinline__ int cluster_size(void) {
#if __CUDA_ARCH__ >= 900
    uint32_t r;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(r));
    return (int)r;
#else
    return 1;
#endif
}
__device__ __forceinline__ void cluster_sync(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
#else
    __syncthreads();
#endif
}
/* The same in two parts, so that a block may work between its last look at another's memory and its end. */
__device__ __forceinline__ void cluster_arrive(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void cluster_wait(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
#endif
}
/* The same variable in the shared memory of another block of the cluster. */
template <typename T> __device__ __forceinline__ const T *cluster_peer(const T *shared, int rank) {
#if __CUDA_ARCH__ >= 900
    uint64_t peer;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(peer) : "l"(shared), "r"(rank));
    return (const T *)peer;
#else
    (void)rank;
    return shared;
#endif
}

/* To the same place in the shared memory of another block of the cluster, there after cluster_sync(). */
__device__ __forceinline__ void cluster_put(float4 *shared, int rank, float4 x) {
#if __CUDA_ARCH__ >= 900
    uint32_t at = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("{\n.reg .u32 peer;\nmapa.shared::cluster.u32 peer, %0, %1;\n"
                 "st.shared::cluster.v4.f32 [peer], {%2, %3, %4, %5};\n}" ::"r"(at),
                 "r"(rank), "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w)
                 : "memory");
#else
    (void)rank;
    *shared = x;
#endif
}
__device__ __forceinline__ void cluster_put(float2 *shared, int rank, float2 x) {
#if __CUDA_ARCH__ >= 900
    uint32_t at = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("{\n.reg .u32 peer;\nmapa.shared::cluster.u32 peer, %0, %1;\n"
                 "st.shared::cluster.v2.f32 [peer], {%2, %3};\n}" ::"r"(at),
                 "r"(rank), "f"(x.x), "f"(x.y)
                 : "memory");
#else
    (void)rank;
    *shared = x;
#endif
}

/* A kernel of one argument, one cluster of blocks a row. It starts early: it has to wait_for_last(). */
template <typename A>
static inline sac_status launch_clusters(const sac_stream *s, void (*kernel)(A), A args, int rows, int64_t n,
                                         int per_thread) {
    int size = 1;
    while (size < CLUSTER_MAX && s->device->compute >= 90 && n > (int64_t)size * CLUSTER_THREADS * per_thread)
        size *= 2;
    if (rows > 65535) return SAC_UNSUPPORTED;
    share_step_split(s, (const void *)kernel);
    cudaLaunchConfig_t c = {};
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim.x = (unsigned)size;
    attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
    c.gridDim = dim3((unsigned)size, (unsigned)rows);
    c.blockDim = dim3(CLUSTER_THREADS);
    c.stream = cuda_stream(s);
    c.attrs = attributes;
    c.numAttrs = s->device->compute >= 90 ? 2 : 0;
    return cudaLaunchKernelEx(&c, kernel, args) == cudaSuccess ? launched() : SAC_DEVICE;
}

#endif
