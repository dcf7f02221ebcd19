/* cluster.cuh - a row of numbers shared by the blocks of a cluster (sm_90 and later; one block before).
 * Blocks meet at cluster_sync() and read each other's shared memory, or send each other messages. */
#ifndef SAC_KERNELS_CLUSTER_CUH
#define SAC_KERNELS_CLUSTER_CUH

#include "device.cuh"

namespace sac {

enum {
    CLUSTER_THREADS = 1024,
    CLUSTER_MAX = 8,  /* every card of sm_90 can place clusters of 8 */
    CLUSTER_WIDE = 16 /* some can place these, few of them */
};

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
/* cluster_sync() in two parts, so that a block may work between its last look at another's memory and its
 * end. */
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
/* Where another block of the cluster has this variable of shared memory. */
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

#if __CUDA_ARCH__ >= 900
/* The address of this place in the shared memory of block `rank`, as instructions want it. */
__device__ __forceinline__ uint32_t cluster_address(const void *shared, int rank) {
    uint32_t there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(shared)), "r"(rank));
    return there;
}
#endif

/* Messages between the blocks of a cluster: written into a mailbox's block, whose threads wait for as many
 * bytes as it expects. Mailboxes are opened, by one thread, before the cluster's first barrier; each serves
 * once. (One block before sm_90.) */
typedef uint64_t mailbox;

__device__ __forceinline__ void mailboxes_open(mailbox *m, int n) {
#if __CUDA_ARCH__ >= 900
    for (int i = 0; i < n; i++)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(m + i)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
    (void)m, (void)n;
}
__device__ __forceinline__ void mailbox_expect(mailbox *m, int n_bytes) { /* by one thread */
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(m)),
                 "r"(n_bytes)
                 : "memory");
#endif
    (void)m, (void)n_bytes;
}
__device__ __forceinline__ void mailbox_wait(mailbox *m) { /* by all threads of the block */
#if __CUDA_ARCH__ >= 900
    uint32_t done;
    do {
        asm volatile("{\n.reg .pred p;\n"
                     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0;\n"
                     "selp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(shared_address(m))
                     : "memory");
    } while (!done);
#else
    __syncthreads();
#endif
    (void)m;
}
/* x to where to[i] is in the shared memory of block `rank`, and its mailbox m told. */
template <typename T> __device__ __forceinline__ void send(T *to, int i, T x, int rank, mailbox *m) {
#if __CUDA_ARCH__ >= 900
#define SEND(type, values)                                                                                   \
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes." type " [%0], " values                      \
    ", [%1];" ::"r"(there + i * (uint32_t)sizeof(T)),                                                        \
        "r"(box)
    uint32_t there = cluster_address(to, rank), box = cluster_address(m, rank);
    const uint32_t *w = (const uint32_t *)&x;
    static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "one store");
    if constexpr (sizeof(T) == 4)
        asm volatile(SEND("b32", "%2"), "r"(w[0]) : "memory");
    else if constexpr (sizeof(T) == 8)
        asm volatile(SEND("v2.b32", "{%2, %3}"), "r"(w[0]), "r"(w[1]) : "memory");
    else
        asm volatile(SEND("v4.b32", "{%2, %3, %4, %5}"), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
                     : "memory");
#undef SEND
#else
    to[i] = x;
#endif
    (void)rank, (void)m;
}

/* How many blocks share a row of n numbers, so that a thread has per_thread of them. */
static inline int cluster_for(const sac_stream *s, int64_t n, int per_thread, int most) {
    int size = 1;
    while (size < most && s->device->compute >= 90 && n > (int64_t)size * CLUSTER_THREADS * per_thread)
        size *= 2;
    return size;
}

/* A cluster of `size` blocks for each of `rows` rows. It starts early: the kernel has to wait_for_last(). */
static inline launch_plan cluster_plan(int size, int rows, size_t shared_bytes) {
    launch_plan p = of_step({dim3((unsigned)size, (unsigned)rows), CLUSTER_THREADS, shared_bytes});
    p.cluster = size;
    return p;
}

/* A kernel of one argument, a cluster of `size` blocks a row. */
template <typename A>
static inline sac_status launch_clusters_of(const sac_stream *s, void (*kernel)(A), A args, int rows,
                                            int size, size_t shared_bytes) {
    if (rows > 65535) return SAC_UNSUPPORTED;
    return launch(s, cluster_plan(size, rows, shared_bytes), kernel, args);
}
template <typename A>
static inline sac_status launch_clusters(const sac_stream *s, void (*kernel)(A), A args, int rows, int64_t n,
                                         int per_thread) {
    return launch_clusters_of(s, kernel, args, rows, cluster_for(s, n, per_thread, CLUSTER_MAX), 0);
}

} // namespace sac

#endif
