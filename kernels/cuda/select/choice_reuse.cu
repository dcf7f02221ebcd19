/* choice_reuse.cu - whether a step's query is like the one that chose, found where the ops are that would
 * choose anew: the host need not wait for the answer. One block; sums in double, in a fixed order. */
#include "device.cuh"

namespace sac::select {

enum { THREADS = 512, WARPS = THREADS / 32 };

static __global__ void __launch_bounds__(THREADS) choice_reuse_kernel(sac_choice_reuse_args a) {
    __shared__ double part[WARPS];
    start_next();
    wait_for_last();
    int tid = threadIdx.x;
    int64_t hits = a.hits[0], all = a.hits[1];
    bool reuse = !a.empty && (a.max_hits <= 0 || hits < a.max_hits);
    if (a.theta > -1) {
        double dot = 0, own = 0, theirs = 0;
        for (int64_t i = tid; i < a.n; i += THREADS) {
            double x = (double)a.q[i], y = (double)a.cached[i];
            dot += x * y, own += x * x, theirs += y * y;
        }
        dot = block_sum_of<WARPS>(dot, part);
        own = block_sum_of<WARPS>(own, part);
        theirs = block_sum_of<WARPS>(theirs, part);
        reuse = reuse && a.theta <= 1 && dot >= a.theta * sqrt(own * theirs);
    }
    __syncthreads(); /* all have read the numbers of hits */
    for (int64_t i = tid; !reuse && i < a.n; i += THREADS) a.cached[i] = a.q[i];
    if (tid > 0) return;
    *a.skip = reuse;
    a.hits[0] = reuse ? hits + 1 : 0;
    a.hits[1] = all + reuse;
}

extern "C" sac_status sac_cuda_choice_reuse(const sac_stream *s, const sac_choice_reuse_args *a) {
    return launch(s, early({1, THREADS}), choice_reuse_kernel, *a);
}

} // namespace sac::select
