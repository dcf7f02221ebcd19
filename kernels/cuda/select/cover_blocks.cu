/* cover_blocks.cu - the fewest blocks of keys that hold a share, a list a block of threads. The smallest sum
 * that is taken is found bit by bit: what lies above it, and how many of those equal to it, follow from whole
 * numbers, so neither order nor threads matter. */
#include "context.cuh"

namespace sac::select {

enum { THREADS = 256, WARPS = THREADS / 32, BITS = 53 /* of the largest sum that counts */ };

__device__ __forceinline__ long long parts_of(float sum) {
    return sum > 0 ? (long long)((double)fminf(sum, (float)SAC_COVER_MOST) * 1099511627776.0) : 0;
}

/* n blocks of keys, of which those below n_first and from `local` on are always taken. */
struct cover_list {
    const float *sums;
    int n, n_first, local;
    __device__ bool is_taken(int j) const { return j < n_first || j >= local; }
};

/* What the blocks to choose from hold whose sums are at least `least`. */
__device__ __forceinline__ long long held_from(const cover_list &l, long long least, long long *part) {
    long long held = 0;
    for (int j = threadIdx.x; j < l.n; j += THREADS) {
        long long x = parts_of(l.sums[j]);
        if (!l.is_taken(j) && x >= least) held += x;
    }
    return block_sum_of<WARPS>(held, part);
}

static __global__ void __launch_bounds__(THREADS) cover_kernel(sac_cover_blocks_args a) {
    __shared__ long long part[WARPS];
    __shared__ int before[33];
    const int64_t list = (int64_t)blockIdx.y * a.n_heads + blockIdx.x, begin = a.first + blockIdx.y * a.block;
    const int64_t end = min(begin + a.block, a.n_rows), own = begin / a.block;
    int32_t *columns = a.columns + list * a.stride;
    cover_list l;
    l.sums = a.sums + list * a.stride, l.n = (int)((end + a.block - 1) / a.block);
    l.n_first = (int)min(a.n_first, (int64_t)l.n), l.local = (int)max(own - a.n_local + 1, (int64_t)0);
    long long taken = 0, least = 0, n_equal = 0;
    for (int j = threadIdx.x; j < l.n; j += THREADS) taken += l.is_taken(j) ? parts_of(l.sums[j]) : 0;
    taken = block_sum_of<WARPS>(taken, part);
    const long long total = taken + held_from(l, 0, part);
    const long long need = (long long)ceil(a.cover * (double)total) - taken;
    if (need > 0) {
        for (int bit = BITS - 1; bit >= 0; bit--) {
            long long next = least | 1ll << bit;
            if (held_from(l, next, part) >= need) least = next;
        }
        long long above = held_from(l, least + 1, part);
        n_equal = least > 0 ? (need - above + least - 1) / least : 0;
    }
    int at = 0, equal_at = 0;
    for (int first = 0; first < l.n; first += THREADS) {
        int j = first + threadIdx.x, n, n_same;
        bool is_there = j < l.n, is_taken = is_there && l.is_taken(j);
        long long x = is_there ? parts_of(l.sums[j]) : 0;
        bool is_equal = need > 0 && is_there && !is_taken && x == least;
        int rank = equal_at + block_sum_before(is_equal, &n_same, before);
        bool is_chosen = is_taken || (need > 0 && is_there && x > least) || (is_equal && rank < n_equal);
        int place = at + block_sum_before(is_chosen, &n, before);
        if (is_chosen) columns[place] = j;
        at += n, equal_at += n_same;
    }
    for (int64_t i = at + threadIdx.x; i < a.stride; i += THREADS) columns[i] = -1;
}

extern "C" sac_status sac_cuda_cover_blocks(const sac_stream *s, const sac_cover_blocks_args *a) {
    if (a->n_blocks > 65535 || a->stride > 1 << 30) return SAC_UNSUPPORTED;
    dim3 grid((unsigned)a->n_heads, (unsigned)a->n_blocks);
    return launch(s, {grid, THREADS}, cover_kernel, *a);
}

} // namespace sac::select
