/* rounded_rows.cu - rows of x as weights of a checkpoint want them: rounded to 8 bits as ref/weights/x_rounding.c does, and to
 * the type of x again, or in another order. */
#include "blocks.cuh"
#include "reduce.cuh"

namespace sac::blocks {

/* To the nearest number of e4m3, of magnitudes up to 448 (sac_round_to_e4m3). */
__device__ __forceinline__ float nearest_e4m3(float v) {
    if (fabsf(v) < 0x1p-6f) return rintf(v * 0x1p9f) * 0x1p-9f;
    const uint32_t u = __float_as_uint(v);
    return __uint_as_float((u + 0x7ffffu + (u >> 20 & 1u)) & ~0xfffffu);
}
__device__ __forceinline__ float rounded(float x, float scale, bool is_int8) {
    float v = scale != 0 ? __fdiv_rn(x, scale) : 0;
    if (is_int8) {
        v = rintf(v) > 127 ? 127 : rintf(v);
        return v * scale;
    }
    return nearest_e4m3(v > 448.0f ? 448.0f : v < -448.0f ? -448.0f : v) * scale;
}
/* Magnitudes as bits: those of a NaN are the largest. */
__device__ __forceinline__ uint32_t magnitude(float x) {
    return __float_as_uint(x) & 0x7fffffffu;
}

/* A block a row, or a warp of it a group of a row. A thread reads the elements that it writes, so y may be x. */
template <typename T>
static __global__ void __launch_bounds__(ROUNDED_THREADS) rounded_kernel(const rounded_job j) {
    __shared__ uint32_t largest_of[ROUNDED_THREADS / 32];
    const bool is_int8 = j.how == SAC_X_INT8_ROWS, by_group = j.how == SAC_X_FP8_GROUPS;
    const int n_threads = by_group ? 32 : ROUNDED_THREADS, id = threadIdx.x % n_threads;
    const T *x = (const T *)j.x.data + (int64_t)blockIdx.x * j.x.stride;
    T *y = (T *)j.y.data + (int64_t)blockIdx.x * j.y.stride;
    const int64_t k = j.x.cols, group = by_group ? j.group : k;
    for (int64_t from = by_group ? threadIdx.x / 32 * group : 0; from < k;
         from += by_group ? ROUNDED_THREADS / 32 * group : k) {
        const int64_t end = from + group < k ? from + group : k;
        uint32_t largest = 0;
        for (int64_t i = from + id; i < end; i += n_threads) largest = max(largest, magnitude(to_f32(x[i])));
        largest = __reduce_max_sync(~0u, largest);
        if (!by_group) { /* k is the same for all: the block is in step */
            if (threadIdx.x % 32 == 0) largest_of[threadIdx.x / 32] = largest;
            __syncthreads();
            for (int w = 0; w < ROUNDED_THREADS / 32; w++) largest = max(largest, largest_of[w]);
        }
        const float scale = __fdiv_rn(__uint_as_float(largest), is_int8 ? 127.5f : 448.0f);
        for (int64_t i = from + id; i < end; i += n_threads)
            y[i] = from_f32<T>(rounded(to_f32(x[i]), scale, is_int8));
    }
}

template <typename T>
static __global__ void __launch_bounds__(ROUNDED_THREADS) ordered_kernel(const rounded_job j) {
    const T *x = (const T *)j.x.data + (int64_t)blockIdx.x * j.x.stride;
    T *y = (T *)j.y.data + (int64_t)blockIdx.x * j.y.stride;
    for (int64_t i = (int64_t)blockIdx.y * ROUNDED_THREADS + threadIdx.x; i < j.x.cols;
         i += (int64_t)gridDim.y * ROUNDED_THREADS)
        y[i] = x[j.order[i]];
}

sac_status rounded_rows(const sac_stream *s, const rounded_job &j) {
    if (!j.x.rows) return SAC_OK;
    if (j.order && j.how) return SAC_UNSUPPORTED;
    const unsigned rows = (unsigned)j.x.rows,
                   parts = (unsigned)min_of(ceil_div(j.x.cols, ROUNDED_THREADS), 64);
    if (j.order)
        return j.x.dtype == SAC_DTYPE_F16
                   ? launch(s, {dim3(rows, parts), ROUNDED_THREADS}, ordered_kernel<half>, j)
                   : launch(s, {dim3(rows, parts), ROUNDED_THREADS}, ordered_kernel<bf16>, j);
    return j.x.dtype == SAC_DTYPE_F16 ? launch(s, {rows, ROUNDED_THREADS}, rounded_kernel<half>, j)
                                      : launch(s, {rows, ROUNDED_THREADS}, rounded_kernel<bf16>, j);
}

} // namespace sac::blocks
