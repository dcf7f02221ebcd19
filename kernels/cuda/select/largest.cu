/* largest.cu - the largest number of each row, and where the first of the largest is. Blocks share a row, each has a
 * stretch of EACH numbers a thread, and the one that comes last joins what they found. A number and its place are one
 * word of 64 bits whose order is that of the op, so the order in which they are joined does not matter. */
#include "context.cuh"
#include "numbers.cuh"
#include "shapes.cuh"

namespace sac::select {

enum { LARGEST_THREADS = 256, LARGEST_EACH = 16, LARGEST_MOST = 256 /* blocks of a row */ };

typedef unsigned long long found_word;

typedef struct largest_job {
    const float *x;
    int32_t *at;
    float *value;
    found_word *parts; /* [row][block] */
    unsigned *counters;
    int64_t stride, n;
} largest_job;

/* Rises with the number, and with the same number falls with its place; 0 for what does not count: NaN, -infinity.
 * 0 and -0 are one number. */
__device__ __forceinline__ found_word word_of(float x, int64_t place) {
    unsigned bits = __float_as_uint(x + 0.0f);
    if (!(x > -CUDART_INF_F)) return 0;
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (found_word)bits << 32 | (unsigned)(0xffffffffu - (unsigned)place);
}

__device__ __forceinline__ found_word warp_best(found_word x) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) x = max(x, __shfl_xor_sync(0xffffffffu, x, i));
    return x;
}

static __global__ void __launch_bounds__(LARGEST_THREADS) largest_kernel(largest_job a) {
    __shared__ found_word of_warp[LARGEST_THREADS / 32];
    __shared__ bool is_last;
    start_next();
    wait_for_last();
    const int row = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float *x = a.x + row * a.stride;
    const int64_t step = (int64_t)gridDim.x * LARGEST_THREADS * LARGEST_EACH;
    found_word best = 0;
    for (int64_t i = (int64_t)blockIdx.x * LARGEST_THREADS * LARGEST_EACH + threadIdx.x; i < a.n; i += step) {
        float kept[LARGEST_EACH];
#pragma unroll
        for (int k = 0; k < LARGEST_EACH; k++)
            kept[k] = i + k * LARGEST_THREADS < a.n ? x[i + k * LARGEST_THREADS] : -CUDART_INF_F;
#pragma unroll
        for (int k = 0; k < LARGEST_EACH; k++) best = max(best, word_of(kept[k], i + k * LARGEST_THREADS));
    }
    best = warp_best(best);
    if (lane == 0) of_warp[warp] = best;
    __syncthreads();
    if (warp > 0) return;
    best = warp_best(lane < LARGEST_THREADS / 32 ? of_warp[lane] : 0);
    if (gridDim.x > 1) {
        found_word *parts = a.parts + (int64_t)row * gridDim.x;
        if (lane == 0) {
            parts[blockIdx.x] = best;
            is_last = count_in(&a.counters[row], gridDim.x) == gridDim.x - 1;
        }
        __syncwarp();
        if (!is_last) return;
        best = 0;
        for (int i = lane; i < (int)gridDim.x; i += 32) best = max(best, __ldcg(&parts[i]));
        best = warp_best(best);
    }
    if (lane > 0) return;
    if (isnan(x[0])) best = 0;
    const int32_t at = best ? (int32_t)(0xffffffffu - (unsigned)best) : 0;
    a.at[row] = at;
    a.value[row] = best ? x[at] : -CUDART_INF_F;
}

extern "C" sac_status sac_cuda_largest(const sac_stream *s, const sac_largest_args *a) {
    if (a->n_rows == 0) return SAC_OK;
    if (a->n_rows > 65535) return SAC_UNSUPPORTED;
    int64_t blocks = min_of(ceil_div(a->n, LARGEST_THREADS * LARGEST_EACH), LARGEST_MOST);
    size_t n_bytes;
    found_word *parts = (found_word *)scratch_rest(s, &n_bytes);
    if ((size_t)(blocks * a->n_rows) * sizeof *parts > n_bytes || (size_t)a->n_rows * sizeof(unsigned) > SCRATCH_COUNTER_BYTES)
        blocks = 1;
    largest_job j = {a->x, a->at, a->value, parts, scratch_counters(s), a->stride, a->n};
    return launch(s, of_step({dim3((unsigned)blocks, (unsigned)a->n_rows), LARGEST_THREADS}), largest_kernel, j);
}

} // namespace sac::select
