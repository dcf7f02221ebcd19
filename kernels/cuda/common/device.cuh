/* device.cuh - what the kernels share: loads and stores of any float type, sums over a warp and a block,
 * launch checks. */
#ifndef SAC_KERNELS_DEVICE_CUH
#define SAC_KERNELS_DEVICE_CUH

#include "cuda_ops.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math_constants.h>

#include <atomic>

namespace sac {

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ float to_f32(float x) {
    return x;
}
__device__ __forceinline__ float to_f32(half x) {
    return __half2float(x);
}
__device__ __forceinline__ float to_f32(bf16 x) {
    return __bfloat162float(x);
}
template <typename T> __device__ __forceinline__ T from_f32(float x);
template <> __device__ __forceinline__ float from_f32<float>(float x) {
    return x;
}
template <> __device__ __forceinline__ half from_f32<half>(float x) {
    return __float2half_rn(x);
}
template <> __device__ __forceinline__ bf16 from_f32<bf16>(float x) {
    return __float2bfloat16_rn(x);
}

/* V neighbours at once: 8 (one 16-byte access for halves, two for f32) or 1. */
template <int V, typename T> __device__ __forceinline__ void load(float *x, const T *p) {
    if constexpr (V == 1) {
        x[0] = to_f32(p[0]);
    } else if constexpr (sizeof(T) == 4) {
#pragma unroll
        for (int i = 0; i < V; i += 4) {
            float4 v = *(const float4 *)(p + i);
            x[i] = v.x, x[i + 1] = v.y, x[i + 2] = v.z, x[i + 3] = v.w;
        }
    } else {
        static_assert(V % 8 == 0, "16 bytes");
#pragma unroll
        for (int i = 0; i < V; i += 8) {
            uint4 v = *(const uint4 *)(p + i);
            const T *e = (const T *)&v;
#pragma unroll
            for (int j = 0; j < 8; j++) x[i + j] = to_f32(e[j]);
        }
    }
}
template <int V, typename T> __device__ __forceinline__ void store(T *p, const float *x) {
    if constexpr (V == 1) {
        p[0] = from_f32<T>(x[0]);
    } else if constexpr (sizeof(T) == 4) {
#pragma unroll
        for (int i = 0; i < V; i += 4) *(float4 *)(p + i) = make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
    } else {
#pragma unroll
        for (int i = 0; i < V; i += 8) {
            uint4 v;
            T *e = (T *)&v;
#pragma unroll
            for (int j = 0; j < 8; j++) e[j] = from_f32<T>(x[i + j]);
            *(uint4 *)(p + i) = v;
        }
    }
}

/* One element of a type known at run time: for paths that are not about speed. */
__device__ __forceinline__ float load_any(sac_dtype t, const void *p, int64_t i) {
    return t == SAC_DTYPE_F32   ? ((const float *)p)[i]
           : t == SAC_DTYPE_F16 ? to_f32(((const half *)p)[i])
                                : to_f32(((const bf16 *)p)[i]);
}
__device__ __forceinline__ void store_any(sac_dtype t, void *p, int64_t i, float x) {
    if (t == SAC_DTYPE_F32)
        ((float *)p)[i] = x;
    else if (t == SAC_DTYPE_F16)
        ((half *)p)[i] = from_f32<half>(x);
    else
        ((bf16 *)p)[i] = from_f32<bf16>(x);
}

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}
__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, i));
    return x;
}
/* The sum up to and with this lane's. */
__device__ __forceinline__ int warp_sum_to(int x) {
#pragma unroll
    for (int i = 1; i < 32; i *= 2) {
        int before = __shfl_up_sync(0xffffffffu, x, i);
        if ((int)threadIdx.x % 32 >= i) x += before;
    }
    return x;
}
/* Over a block of whole warps, the same in every thread. `part` is 32 floats of shared memory, free again
 * after the next barrier. */
__device__ __forceinline__ float block_sum(float x, float *part) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n = blockDim.x / 32;
    x = warp_sum(x);
    if (n == 1) return x;
    __syncthreads(); /* the last sum has been read by all */
    if (lane == 0) part[warp] = x;
    __syncthreads();
    return warp_sum(lane < n ? part[lane] : 0.0f);
}

/* One of n that come: how many came before. The counter is 0 again after the last, which sees what those
 * before it wrote (lighter than __threadfence() on both sides). */
__device__ __forceinline__ unsigned count_in(unsigned *counter, unsigned n) {
#ifdef __CUDA_ARCH__
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(counter), "r"(n - 1)
                 : "memory");
    return before;
#else
    (void)counter;
    return n;
#endif
}

/* In f32 as the reference has it, with what f32 can give. */
__device__ __forceinline__ float activate(sac_activation act, float x) {
    switch (act) {
    case SAC_ACT_NONE: break;
    case SAC_ACT_GELU: return 0.5f * x * erfcf(-x * 0.70710678118654752440f); /* no cancellation far left */
    case SAC_ACT_GELU_TANH: return x / (1 + expf(-1.5957691216057308f * (x + 0.044715f * x * x * x)));
    case SAC_ACT_QUICK_GELU: return x / (1 + expf(-1.702f * x));
    case SAC_ACT_SILU: return x / (1 + expf(-x));
    }
    return x;
}

/* The same for values that will be rounded to halves: 2^-20 off, by the hardware's exponential and
 * reciprocal. */
__device__ __forceinline__ float sigmoid_fast(float x) {
    float e, r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(-1.4426950408889634f * x));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1 + e));
    return r;
}
template <typename T> __device__ __forceinline__ float activate_as(sac_activation act, float x) {
    if constexpr (sizeof(T) == 2) {
        if (act == SAC_ACT_QUICK_GELU) return x * sigmoid_fast(1.702f * x);
        if (act == SAC_ACT_SILU) return x * sigmoid_fast(x);
        if (act == SAC_ACT_GELU_TANH)
            return x * sigmoid_fast(1.5957691216057308f * (x + 0.044715f * x * x * x));
    }
    return activate(act, x);
}

static inline cudaStream_t cuda_stream(const sac_stream *s) {
    return (cudaStream_t)s->native;
}
/* Of a call of the runtime. What it refused is forgotten: the next one to ask would take it for its own. */
static inline sac_status status_of(cudaError_t e) {
    if (e == cudaSuccess) return SAC_OK;
    cudaGetLastError();
    return SAC_DEVICE;
}
static inline sac_status launched(void) {
    return status_of(cudaGetLastError());
}
static inline bool is_float(sac_dtype t) {
    return t == SAC_DTYPE_F32 || t == SAC_DTYPE_F16 || t == SAC_DTYPE_BF16;
}
static inline bool is_half(sac_dtype t) {
    return t == SAC_DTYPE_F16 || t == SAC_DTYPE_BF16;
}
static inline int64_t element_bytes(sac_dtype t) {
    return t == SAC_DTYPE_F32 ? 4 : 2;
}
/* As instructions on shared memory want it. */
__device__ __forceinline__ uint32_t shared_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}
/* Kernels of a step follow each other so closely that their starts count. One launched early may run before
 * the last is through: until wait_for_last() it may only read what no kernel writes (weights) or what was
 * written before a launch that was not early (`packs` in context.cuh), and every block must get there.
 * start_next() lets the next one come as soon as there is room (sm_90 and later). */
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
/* After wait_for_last(): whether the op has nothing to do (ops.h). */
__device__ __forceinline__ bool is_skipped(const int32_t *skip) {
    return skip && *skip != 0;
}
/* Kernels that follow each other in a step ask for one split of a processor's memory into cache and shared
 * memory (percent of the latter; packed_step takes nearly all): it has to run empty to change that. */
enum { STEP_CARVEOUT = 100 };
/* Shared memory that a block may have at most (CUDA C++ Programming Guide, table of compute capabilities). */
static inline int block_shared_bytes(const sac_device *d) {
    int c = d->compute;
    return (c == 80 || c == 87 ? 163 : c >= 90 && c < 120 ? 227 : 99) << 10;
}
/* The limit is the kernel's, whichever thread launches it: every call gives the same for a card. */
template <typename... P> static inline sac_status allow_shared(void (*kernel)(P...), int n_bytes) {
    return status_of(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, n_bytes));
}
template <typename... P> static inline sac_status attributes_of(void (*kernel)(P...), cudaFuncAttributes *f) {
    return status_of(cudaFuncGetAttributes(f, kernel));
}

/* What the driver is told once a kernel and card: how much of that memory is to be shared memory. */
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
static inline void share_step_split(const sac_stream *s, const void *kernel) {
    split_memory(s, kernel, STEP_CARVEOUT);
}
/* Before wait_for_last() any line may be asked into the L2 cache, whoever writes it: no value is taken. */
__device__ __forceinline__ void fetch_soon(const void *p) {
#ifdef __CUDA_ARCH__
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p) : "memory");
#endif
    (void)p;
}
__device__ __forceinline__ void fetch_soon(const void *p, int n_bytes) { /* multiples of 16; from sm_90 on */
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(p), "r"(n_bytes) : "memory");
#else
    (void)p, (void)n_bytes;
#endif
}
template <typename... P, typename... A>
static inline sac_status launch_early(const sac_stream *s, void (*kernel)(P...), dim3 grid, dim3 block,
                                      size_t shared_bytes, A... args) {
    cudaLaunchConfig_t c = {};
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    c.gridDim = grid;
    c.blockDim = block;
    c.dynamicSmemBytes = shared_bytes;
    c.stream = cuda_stream(s);
    c.attrs = &early;
    c.numAttrs = s->device->compute >= 90 ? 1 : 0;
    return status_of(cudaLaunchKernelEx(&c, kernel, (P)args...));
}

/* One of a step: with the others' split. */
template <typename... P, typename... A>
static inline sac_status launch_step(const sac_stream *s, void (*kernel)(P...), dim3 grid, dim3 block,
                                     size_t shared_bytes, A... args) {
    share_step_split(s, (const void *)kernel);
    return launch_early(s, kernel, grid, block, shared_bytes, args...);
}

/* Whether rows of 8 neighbours lie on 16-byte lines. */
static inline bool is_aligned(const void *p, int64_t stride) {
    return (uintptr_t)p % 16 == 0 && stride % 8 == 0;
}
static inline bool mat_aligned(sac_mat m) {
    return m.cols % 8 == 0 && (m.rows <= 1 ? (uintptr_t)m.data % 16 == 0 : is_aligned(m.data, m.stride));
}
static inline bool keys_aligned(const sac_kv_view *kv) {
    return kv->head_dim % 8 == 0 && kv->head_stride % 8 == 0 && is_aligned(kv->k, kv->row_stride);
}
static inline bool kv_aligned(const sac_kv_view *kv) {
    return keys_aligned(kv) && is_aligned(kv->v, kv->row_stride);
}
static inline int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}
static inline int64_t min_of(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t max_of(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Runs `call` with T as the C type of a float dtype. */
#define BY_DTYPE(dtype, call)                                                                                \
    switch (dtype) {                                                                                         \
    case SAC_DTYPE_F32: {                                                                                    \
        using T = float;                                                                                     \
        call;                                                                                                \
    } break;                                                                                                 \
    case SAC_DTYPE_F16: {                                                                                    \
        using T = half;                                                                                      \
        call;                                                                                                \
    } break;                                                                                                 \
    case SAC_DTYPE_BF16: {                                                                                   \
        using T = bf16;                                                                                      \
        call;                                                                                                \
    } break;                                                                                                 \
    default: return SAC_UNSUPPORTED;                                                                         \
    }

} // namespace sac

#endif
