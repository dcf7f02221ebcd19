/* pattern_rows.cu - lists of rows for blocks of queries: each list is drawn as a map of bits in shared
 * memory, which makes it ascend and each row come once; once to count, then, where all counts are known, to
 * write. */
#include "context.cuh"

namespace sac::select {

enum { THREADS = 256, WARPS = THREADS / 32 };

/* Rows [from, to) below `end`. */
__device__ __forceinline__ void mark(uint32_t *map, int64_t from, int64_t to, int64_t end) {
    from = max(from, (int64_t)0), to = min(to, end);
    for (int64_t row = from; row < to; row = (row / 32 + 1) * 32) {
        int first = (int)(row % 32), n = (int)min(to - row, (int64_t)(32 - first));
        atomicOr(map + row / 32, (n == 32 ? 0xffffffffu : (1u << n) - 1) << first);
    }
}

/* The block's list as a map; returns its number of words. */
__device__ __forceinline__ int draw(const sac_pattern_rows_args &a, uint32_t *map, int64_t begin,
                                    int64_t end) {
    int list = blockIdx.x, n_words = (int)((end + 31) / 32);
    const int32_t *columns =
        a.columns + ((a.by_block ? (int64_t)blockIdx.y * a.n_lists : 0) + list) * a.n_columns;
    const int32_t *diagonals = a.diagonals + list * a.n_diagonals;
    for (int i = threadIdx.x; i < n_words; i += THREADS) map[i] = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < a.n_columns; i += THREADS)
        if (columns[i] >= 0) mark(map, a.width * columns[i], a.width * (columns[i] + (int64_t)1), end);
    for (int64_t i = threadIdx.x; i < a.n_diagonals; i += THREADS)
        mark(map, begin - diagonals[i], begin + a.block - diagonals[i], end);
    if (a.own && threadIdx.x == 0) mark(map, begin / a.width * a.width, end, end);
    __syncthreads();
    return n_words;
}

static __global__ void __launch_bounds__(THREADS) count_kernel(sac_pattern_rows_args a, int64_t *counts) {
    extern __shared__ uint32_t map[];
    __shared__ int64_t part[WARPS];
    int64_t begin = a.first + blockIdx.y * a.block, end = min(begin + a.block, a.n_rows);
    int64_t number = (int64_t)blockIdx.y * a.n_lists + blockIdx.x, n = 0, pairs = 0;
    int n_words = draw(a, map, begin, end);
    for (int i = threadIdx.x; i < n_words; i += THREADS) {
        uint32_t word = map[i];
        int64_t row = (int64_t)i * 32;
        n += __popc(word);
        if (row + 31 <= begin) {
            pairs += __popc(word) * (end - begin);
            continue;
        }
        for (int bit = 0; bit < 32; bit++)
            if (word >> bit & 1) pairs += row + bit <= begin ? end - begin : end - row - bit;
    }
    n = block_sum_of<WARPS>(n, part);
    pairs = block_sum_of<WARPS>(pairs, part);
    if (threadIdx.x > 0) return;
    counts[number] = n;
    a.pairs[number] = pairs;
}

static __global__ void __launch_bounds__(THREADS)
    write_kernel(sac_pattern_rows_args a, const int64_t *counts) {
    extern __shared__ uint32_t map[];
    __shared__ int64_t part[WARPS];
    int64_t begin = a.first + blockIdx.y * a.block, end = min(begin + a.block, a.n_rows);
    int64_t number = (int64_t)blockIdx.y * a.n_lists + blockIdx.x, at = 0;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_words = draw(a, map, begin, end);
    for (int64_t i = threadIdx.x; i < number; i += THREADS) at += counts[i];
    at = block_sum_of<WARPS>(at, part);
    if (threadIdx.x == 0) {
        if (number == 0) a.start[0] = 0;
        a.start[number + 1] = at + counts[number];
    }
    for (int first = 0; first < n_words; first += THREADS) { /* a word a thread */
        int i = first + threadIdx.x;
        uint32_t word = i < n_words ? map[i] : 0;
        int n = __popc(word), before = warp_sum_to(n);
        __syncthreads(); /* the last round's sums have been read */
        if (lane == 31) part[warp] = before;
        __syncthreads();
        int64_t to = at + before - n, all = 0;
        for (int w = 0; w < WARPS; w++) {
            if (w < warp) to += part[w];
            all += part[w];
        }
        for (int w = 0; w < 32; w++) { /* a warp's words one after the other, a bit a lane, so that rows lie side by side */
            const uint32_t bits = __shfl_sync(0xffffffffu, word, w);
            const int64_t from = __shfl_sync(0xffffffffu, to, w);
            if (bits >> lane & 1)
                a.rows[from + __popc(bits & ((1u << lane) - 1))] = (first + warp * 32 + w) * 32 + lane;
        }
        at += all;
    }
}

extern "C" sac_status sac_cuda_pattern_rows(const sac_stream *s, const sac_pattern_rows_args *a) {
    size_t n_bytes, n_lists = (size_t)(a->n_blocks * a->n_lists);
    int64_t end = min_of(a->first + a->n_blocks * a->block, a->n_rows), map = ceil_div(end, 32) * 4;
    int64_t *counts = (int64_t *)scratch_rest(s, &n_bytes);
    const int most = block_shared_bytes(s->device) - 1024; /* the kernels' own */
    if (a->n_blocks > 65535 || a->n_lists < 1 || a->n_blocks < 1 || n_lists * sizeof *counts > n_bytes ||
        map > most)
        return SAC_UNSUPPORTED;
    dim3 grid((unsigned)a->n_lists, (unsigned)a->n_blocks);
    const launch_plan plan = {grid, THREADS, (size_t)map, most};
    SAC_TRY(launch(s, plan, count_kernel, *a, counts));
    return launch(s, plan, write_kernel, *a, counts);
}

} // namespace sac::select
