/* wgmma.cuh - what Hopper's processors do besides arithmetic of their threads: products of matrices in shared
 * memory by four warps together (wgmma), bulk copies of boxes of a tensor to shared memory (TMA), barriers
 * that count arrivals and bytes (mbarrier), registers handed from one group of warps to another. PTX
 * manual 9.0, "Asynchronous warpgroup level matrix instructions" and "cp.async.bulk.tensor". All of it is for
 * sm_90a; for other processors the functions compile to nothing.
 *
 * Matrices in shared memory lie as TMA writes them with a swizzle of 128 bytes: rows of 64 halves, and of row
 * r the 16-byte chunk c at place c ^ (r % 8), from lines of 1024 bytes on. */
#ifndef SAC_KERNELS_WGMMA_CUH
#define SAC_KERNELS_WGMMA_CUH

#include "mma.cuh"

#include <cuda.h>

namespace sac {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HOPPER_ASM(...) asm volatile(__VA_ARGS__)
#define HOPPER          1
#else
#define HOPPER_ASM(...) ((void)0)
#define HOPPER          0
#endif

/* ---------------------------------------------------------------- barriers */

__device__ __forceinline__ void barrier_init(uint64_t *barrier, int n_arrivals) {
    HOPPER_ASM("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(n_arrivals)
               : "memory");
}
/* Between the inits and the block's first meeting: the copy engine sees them too. */
__device__ __forceinline__ void barrier_init_done(void) {
    HOPPER_ASM("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void barrier_arrive(uint64_t *barrier) {
    HOPPER_ASM("{\n.reg .b64 s;\nmbarrier.arrive.shared::cta.b64 s, [%0];\n}" ::"r"(shared_address(barrier))
               : "memory");
}
/* Arrives; the phase ends when n_bytes more have come, too. */
__device__ __forceinline__ void barrier_expect(uint64_t *barrier, int n_bytes) {
    HOPPER_ASM("{\n.reg .b64 s;\nmbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1;\n}" ::"r"(
                   shared_address(barrier)),
               "r"(n_bytes)
               : "memory");
}
__device__ __forceinline__ bool barrier_passed(uint64_t *barrier, uint32_t phase) {
    uint32_t yes = 1;
    HOPPER_ASM("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
               "selp.u32 %0, 1, 0, p;\n}"
               : "=r"(yes)
               : "r"(shared_address(barrier)), "r"(phase)
               : "memory");
    return yes;
}
/* Until the phase of that parity has ended; parity 1 of a new barrier has. */
__device__ __forceinline__ void barrier_wait(uint64_t *barrier, uint32_t phase) {
#ifdef SAC_BARRIER_SPINS /* to find out who waits for whom */
    for (long spin = 0; !barrier_passed(barrier, phase); spin++)
        if (spin > SAC_BARRIER_SPINS) {
            printf("block %d thread %d waits for barrier %x phase %u\n", (int)blockIdx.x, (int)threadIdx.x,
                   shared_address(barrier), phase);
            __trap();
        }
#else
    while (!barrier_passed(barrier, phase)) {
    }
#endif
}
/* Named barriers: n threads meet, some of which do not stay to see it. */
__device__ __forceinline__ void meet(int id, int n) {
    HOPPER_ASM("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory");
}
/* meet(), and whether x holds for any of the threads. */
__device__ __forceinline__ bool meet_any(int id, int n, bool x) {
    int any = x;
    HOPPER_ASM("{\n.reg .pred p, q;\nsetp.ne.s32 p, %0, 0;\nbar.red.or.pred q, %1, %2, p;\n"
               "selp.s32 %0, 1, 0, q;\n}"
               : "+r"(any)
               : "r"(id), "r"(n)
               : "memory");
    return any;
}
__device__ __forceinline__ void pass(int id, int n) {
    HOPPER_ASM("bar.arrive %0, %1;" ::"r"(id), "r"(n) : "memory");
}

/* ---------------------------------------------------------------- copies */

__device__ __forceinline__ uint64_t keep_in_l2(void) {
    uint64_t policy = 0;
    HOPPER_ASM("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
__device__ __forceinline__ uint64_t pass_through_l2(void) {
    uint64_t policy = 0;
    HOPPER_ASM("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
/* The box of `map` at (x, row, head, batch) to shared memory; its bytes count on `barrier`. What lies outside
 * of the tensor comes as zeros, and counts. */
__device__ __forceinline__ void copy_box(void *shared, const CUtensorMap *map, uint64_t *barrier, int x,
                                         int row, int head, int batch, uint64_t policy) {
    HOPPER_ASM(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(shared_address(shared)),
        "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(row), "r"(head), "r"(batch), "l"(policy)
        : "memory");
}
__device__ __forceinline__ void fetch_map(const CUtensorMap *map) {
    HOPPER_ASM("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* After a thread's own writes to shared memory, before the barrier behind which products read them. */
__device__ __forceinline__ void written_for_products(void) {
    HOPPER_ASM("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---------------------------------------------------------------- registers */

template <int N> __device__ __forceinline__ void give_registers(void) { /* down to N a thread */
    HOPPER_ASM("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> __device__ __forceinline__ void take_registers(void) {
    HOPPER_ASM("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

/* ---------------------------------------------------------------- products */

/* Where a matrix lies. Rows along the sum (K-major, `leading` unused): groups of 8 rows are `stride` bytes
 * apart. Columns along the sum (MN-major): groups of 8 of the sum are `stride` apart, blocks of 64 columns
 * `leading`. A descriptor + n / 16 is that of n bytes further. */
__device__ __forceinline__ uint64_t matrix_at(const void *shared, int leading, int stride) {
    return (uint64_t)((shared_address(shared) & 0x3ffff) >> 4) | (uint64_t)(leading >> 4) << 16 |
           (uint64_t)(stride >> 4) << 32 | (uint64_t)1 << 62 /* swizzle of 128 bytes */;
}
/* Before the first product, and again after registers that take part were written. */
__device__ __forceinline__ void products_begin(void) {
    HOPPER_ASM("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void products_commit(void) {
    HOPPER_ASM("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Until all but the last N groups are done. */
template <int N> __device__ __forceinline__ void products_wait(void) {
    HOPPER_ASM("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
/* After a wait: no use of these registers may move before it, and none of them be reused. */
template <int N> __device__ __forceinline__ void settle(float (&x)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) HOPPER_ASM("" : "+f"(x[i])::"memory");
}
template <int N> __device__ __forceinline__ void settle(uint32_t (&x)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) HOPPER_ASM("" : "+r"(x[i])::"memory");
}

#define EIGHT(a, b, c, d, e, f, g, h) "%" #a ", %" #b ", %" #c ", %" #d ", %" #e ", %" #f ", %" #g ", %" #h
#define LIST_8  EIGHT(0, 1, 2, 3, 4, 5, 6, 7)
#define LIST_16 LIST_8 ", " EIGHT(8, 9, 10, 11, 12, 13, 14, 15)
#define LIST_32                                                                                              \
    LIST_16 ", " EIGHT(16, 17, 18, 19, 20, 21, 22, 23) ", " EIGHT(24, 25, 26, 27, 28, 29, 30, 31)
#define LIST_64                                                                                              \
    LIST_32 ", " EIGHT(32, 33, 34, 35, 36, 37, 38, 39) ", " EIGHT(40, 41, 42, 43, 44, 45, 46, 47) ", " EIGHT( \
        48, 49, 50, 51, 52, 53, 54, 55) ", " EIGHT(56, 57, 58, 59, 60, 61, 62, 63)
#define LIST_88                                                                                              \
    LIST_64 ", " EIGHT(64, 65, 66, 67, 68, 69, 70, 71) ", " EIGHT(72, 73, 74, 75, 76, 77, 78, 79) ", " EIGHT( \
        80, 81, 82, 83, 84, 85, 86, 87)
#define SUMS_OF(d, i)                                                                                        \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),              \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define SUMS_8(d)  SUMS_OF(d, 0)
#define SUMS_16(d) SUMS_8(d), SUMS_OF(d, 8)
#define SUMS_32(d) SUMS_16(d), SUMS_OF(d, 16), SUMS_OF(d, 24)
#define SUMS_64(d) SUMS_32(d), SUMS_OF(d, 32), SUMS_OF(d, 40), SUMS_OF(d, 48), SUMS_OF(d, 56)
#define SUMS_88(d) SUMS_64(d), SUMS_OF(d, 64), SUMS_OF(d, 72), SUMS_OF(d, 80)

/* Thread i of the four warps has of the sums [64][N], with g = i % 32 / 4 and t = i % 4, d[4 j + 2 r + c] =
 * (16 (i / 32) + g + 8 r, 8 j + 2 t + c): mma.cuh's C, side by side. */

/* d = (or +=, from the second step of a sum on) A B^T, A [64][16] and B [N][16] in shared memory, K-major. */
#define DEFINE_PRODUCT(T, TYPE, N, R, A, B, C)                                                               \
    template <> __device__ __forceinline__ void product<T>(float(&d)[R], uint64_t a, uint64_t b, bool add) { \
        HOPPER_ASM("{\n.reg .pred p;\nsetp.ne.b32 p, %" #C ", 0;\n"                                          \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" LIST_##R             \
                   "}, %" #A ", %" #B ", p, 1, 1, 0, 0;\n}"                                                  \
                   : SUMS_##R(d)                                                                             \
                   : "l"(a), "l"(b), "r"((int)add));                                                         \
    }
template <typename T> __device__ void product(float (&d)[8], uint64_t a, uint64_t b, bool add);
template <typename T> __device__ void product(float (&d)[16], uint64_t a, uint64_t b, bool add);
template <typename T> __device__ void product(float (&d)[32], uint64_t a, uint64_t b, bool add);
template <typename T> __device__ void product(float (&d)[64], uint64_t a, uint64_t b, bool add);
template <typename T> __device__ void product(float (&d)[88], uint64_t a, uint64_t b, bool add);
DEFINE_PRODUCT(bf16, "bf16", 16, 8, 8, 9, 10)
DEFINE_PRODUCT(half, "f16", 16, 8, 8, 9, 10)
DEFINE_PRODUCT(bf16, "bf16", 32, 16, 16, 17, 18)
DEFINE_PRODUCT(half, "f16", 32, 16, 16, 17, 18)
DEFINE_PRODUCT(bf16, "bf16", 64, 32, 32, 33, 34)
DEFINE_PRODUCT(half, "f16", 64, 32, 32, 33, 34)
DEFINE_PRODUCT(bf16, "bf16", 128, 64, 64, 65, 66)
DEFINE_PRODUCT(half, "f16", 128, 64, 64, 65, 66)
DEFINE_PRODUCT(bf16, "bf16", 176, 88, 88, 89, 90)
DEFINE_PRODUCT(half, "f16", 176, 88, 88, 89, 90)

/* d += A B, A [64][16] in registers (mma.cuh's A), B [16][128] in shared memory, MN-major. */
#define DEFINE_PRODUCT_OF(T, TYPE)                                                                           \
    template <>                                                                                              \
    __device__ __forceinline__ void product_of<T>(float(&d)[64], const uint32_t *a, uint64_t b) {            \
        HOPPER_ASM("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                                \
                   "wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE " {" LIST_64                 \
                   "}, {%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}"                                            \
                   : SUMS_64(d)                                                                              \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                    \
    }
template <typename T> __device__ void product_of(float (&d)[64], const uint32_t *a, uint64_t b);
DEFINE_PRODUCT_OF(bf16, "bf16")
DEFINE_PRODUCT_OF(half, "f16")

} // namespace sac

#endif
