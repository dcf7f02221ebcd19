/* mma.cuh - tensor-core products of 16 x 8 x 16 halves with f32 sums (sm_80 and later), matrix loads from
 * shared memory, and copies that do not wait.
 *
 * With g = lane / 4 and t = lane % 4, a lane holds: of A [16][16] the pairs (g, 2t), (g + 8, 2t), (g, 2t +
 * 8), (g + 8, 2t + 8); of B [16][8] the pairs (2t, g), (2t + 8, g) down its columns; of C [16][8] the floats
 * (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1). */
#ifndef SAC_KERNELS_MMA_CUH
#define SAC_KERNELS_MMA_CUH

#include "device.cuh"

namespace sac {

template <typename T>
__device__ __forceinline__ void mma(float c[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                    uint32_t b0, uint32_t b1);
template <>
__device__ __forceinline__ void mma<bf16>(float c[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                          uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
                 "{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void mma<half>(float c[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                          uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
                 "{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/* 16 x 8 x 32 bytes with whole sums; B is unsigned. With a lane's g and t as above, it has of A the four
 * bytes (g, 4t ..), (g + 8, 4t ..), (g, 4t + 16 ..), (g + 8, 4t + 16 ..), of B (4t .., g) and (4t + 16 ..,
 * g), of C what it has above. */
template <bool SIGNED_A>
__device__ __forceinline__ void mma_bytes(int c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    if constexpr (SIGNED_A)
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
                     "{%0,%1,%2,%3};"
                     : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
                     "{%0,%1,%2,%3};"
                     : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* The same with a B that is signed, and 16 x 8 x 16 of it: of A the bytes (g, 4t ..), (g + 8, 4t ..), of B (4t .., g). */
template <bool SIGNED_A>
__device__ __forceinline__ void mma_signed_bytes(int c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    if constexpr (SIGNED_A)
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
                     "{%0,%1,%2,%3};"
                     : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
                     "{%0,%1,%2,%3};"
                     : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <bool SIGNED_A>
__device__ __forceinline__ void mma_signed_bytes_16(int c[4], uint32_t a0, uint32_t a1, uint32_t b0) {
    if constexpr (SIGNED_A)
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
            : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
            : "r"(a0), "r"(a1), "r"(b0));
    else
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
            : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
            : "r"(a0), "r"(a1), "r"(b0));
}

template <typename T> __device__ __forceinline__ uint32_t pack(float lo, float hi);
template <> __device__ __forceinline__ uint32_t pack<bf16>(float lo, float hi) {
    __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    return *(uint32_t *)&v;
}
template <> __device__ __forceinline__ uint32_t pack<half>(float lo, float hi) {
    half2 v = __floats2half2_rn(lo, hi);
    return *(uint32_t *)&v;
}

template <typename T> __device__ __forceinline__ float2 unpack_two(uint32_t x) {
    const T *h = (const T *)&x;
    return make_float2(to_f32(h[0]), to_f32(h[1]));
}

/* Four 8 x 8 matrices of halves; lane i gives the row i % 8 of matrix i / 8. */
__device__ __forceinline__ void load_matrices(uint32_t r[4], const void *shared) {
    uint32_t at = shared_address(shared);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(uint32_t r[4], const void *shared) {
    uint32_t at = shared_address(shared);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

/* Bytes of a row of D halves in shared memory: an odd number of 16-byte chunks, so that 8 rows at the same
 * chunk (a matrix load) lie in 8 different groups of banks. */
template <int D> constexpr int pitch(void) {
    return (D / 8 | 1) * 16;
}

/* 16 bytes to shared memory, zeros where !valid (the address is not followed then). */
__device__ __forceinline__ void copy_async(void *shared, const void *from, bool valid) {
    uint32_t at = shared_address(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(valid ? 16 : 0)
                 : "memory");
}
/* n_bytes of 4, then zeros. */
__device__ __forceinline__ void copy_async_word(void *shared, const void *from, int n_bytes) {
    uint32_t at = shared_address(shared);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from), "r"(n_bytes)
                 : "memory");
}
__device__ __forceinline__ void copy_commit(void) {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int N>
__device__ __forceinline__ void copy_wait(void) { /* until all but the last N groups have come */
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

} // namespace sac

#endif
