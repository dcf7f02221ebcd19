/* mask_scores.cu - scores of places that a list lacks become -infinity: a thread a place looks it up. */
#include "context.cuh"

namespace sac::select {

enum { THREADS = 256 };

static __global__ void __launch_bounds__(THREADS) mask_kernel(sac_mask_scores_args a) {
    int row = blockIdx.y, list = row / (a.n_rows / a.lists.n_lists);
    int64_t place = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    start_next();
    wait_for_last();
    if (place >= a.n) return;
    int64_t low = a.lists.start[list], end = a.lists.start[list + 1], high = end;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (a.lists.rows[middle] < place)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == end || a.lists.rows[low] != place) a.scores[row * a.stride + place] = -CUDART_INF_F;
}

extern "C" sac_status sac_cuda_mask_scores(const sac_stream *s, const sac_mask_scores_args *a) {
    if (a->n_rows > 65535 || ceil_div(a->n, THREADS) > INT32_MAX) return SAC_UNSUPPORTED;
    if (a->n == 0 || a->n_rows == 0) return SAC_OK;
    dim3 grid((unsigned)ceil_div(a->n, THREADS), (unsigned)a->n_rows);
    return launch(s, early({grid, THREADS}), mask_kernel, *a);
}

} // namespace sac::select
