/* edit_scores.cu - biases, penalties and masks of scores, in place. Masks are read as whole lines, a word a lane, for they may lie
 * with the host; a score whose bit is 0 is written by its mask's thread alone, one that is edited by its edit's. */
#include "device.cuh"
#include "numbers.cuh"
#include "shapes.cuh"

namespace sac::select {

enum { EDIT_THREADS = 256 };

__device__ __forceinline__ void write_mask(const sac_edit_scores_args &a, float *x, const uint32_t *mask) {
    const int lane = threadIdx.x % 32;
    const int64_t n_words = (a.n + 31) / 32, first = ((int64_t)blockIdx.x * EDIT_THREADS + threadIdx.x) / 32 * 32;
    if (first >= n_words) return;
    const uint32_t word = first + lane < n_words ? mask[first + lane] : ~0u;
#pragma unroll 4
    for (int i = 0; i < 32; i++) {
        const uint32_t bits = __shfl_sync(0xffffffffu, word, i);
        const int64_t id = (first + i) * 32 + lane;
        if (id < a.n && !(bits >> lane & 1)) x[id] = -CUDART_INF_F;
    }
}

/* What is no number stays as it is, with its bits. */
__device__ __forceinline__ float edited(float x, const sac_score_edit &e) {
    if (isnan(x)) return x;
    x = __fadd_rn(x, e.bias);
    x = x < 0 ? __fmul_rn(x, e.repetition) : __fdiv_rn(x, e.repetition);
    return __fsub_rn(x, e.less);
}

static __global__ void __launch_bounds__(EDIT_THREADS) edit_scores_kernel(sac_edit_scores_args a) {
    __shared__ int of_row[2]; /* edits, whether there is a mask */
    start_next();
    wait_for_last();
    const int row = blockIdx.y, i = blockIdx.x * EDIT_THREADS + threadIdx.x;
    if (threadIdx.x == 0) of_row[0] = a.n_edits[row], of_row[1] = a.is_masked ? a.is_masked[row] : 0;
    __syncthreads();
    float *x = a.x + row * a.stride;
    const uint32_t *mask = a.masks + row * a.mask_stride;
    if (of_row[1]) write_mask(a, x, mask);
    if (i >= of_row[0]) return;
    const sac_score_edit e = a.edits[row * a.edit_stride + i];
    if (of_row[1] && !(mask[e.id / 32] >> (e.id % 32) & 1)) return;
    x[e.id] = edited(x[e.id], e);
}

extern "C" sac_status sac_cuda_edit_scores(const sac_stream *s, const sac_edit_scores_args *a) {
    if (a->n_rows == 0) return SAC_OK;
    if (a->n_rows > 65535) return SAC_UNSUPPORTED;
    int64_t blocks = ceil_div(a->most, EDIT_THREADS);
    if (a->is_masked) blocks = max_of(blocks, ceil_div((a->n + 31) / 32, EDIT_THREADS));
    if (blocks == 0) return SAC_OK;
    return launch(s, of_step({dim3((unsigned)blocks, (unsigned)a->n_rows), EDIT_THREADS}), edit_scores_kernel, *a);
}

} // namespace sac::select
