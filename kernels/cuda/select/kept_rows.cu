/* kept_rows.cu - lists of what passes a threshold in any row of numbers: first a bit for every place, and
 * counts, which the last block of a list sums up; then the places, each block behind those that come before
 * it. Counts are whole numbers, so nothing depends on who is last. */
#include "context.cuh"

namespace sac::select {

enum { THREADS = 256, WARPS = THREADS / 32, CHUNK = 2048, WORDS = CHUNK / 32 };

typedef struct kept_job {
    sac_kept_rows_args a;
    uint32_t *bits;     /* [list][chunk][WORDS] */
    int2 *counts;       /* [list][chunk]: places of the list; what its rows kept before they were joined */
    int2 *totals;       /* [list] of them */
    int *before;        /* [list][chunk]: places of the list before the chunk's */
    unsigned *counters; /* [list], zero between ops */
    int group, n_chunks;
} kept_job;

/* By the last block of a list: where its chunks begin, and its totals. */
__device__ __forceinline__ void sum_up(const kept_job &j, int list, int *part) {
    int tid = threadIdx.x, carry = 0, n_own = 0;
    int64_t first = (int64_t)list * j.n_chunks;
    for (int from = 0; from < j.n_chunks; from += THREADS) {
        int2 c = from + tid < j.n_chunks ? __ldcg(&j.counts[first + from + tid]) : make_int2(0, 0);
        int n, before = block_sum_before(c.x, &n, part);
        if (from + tid < j.n_chunks) j.before[first + from + tid] = carry + before;
        carry += n;
        n_own += c.y;
    }
    n_own = block_sum_of<WARPS>(n_own, part);
    if (tid == 0) j.totals[list] = make_int2(carry, n_own);
}

static __global__ void __launch_bounds__(THREADS) mark_kernel(kept_job j) {
    __shared__ int part[33];
    __shared__ bool is_last;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, list = blockIdx.y, chunk = blockIdx.x;
    int64_t at = (int64_t)list * j.n_chunks + chunk;
    int n = 0, n_own = 0;
    start_next();
    wait_for_last();
    const float *values = j.a.values + (int64_t)list * j.group * j.a.stride,
                *threshold = j.a.threshold + list * j.group;
    for (int w = warp; w < WORDS; w += WARPS) {
        int64_t place = (int64_t)chunk * CHUNK + w * 32 + lane;
        bool there = place < j.a.n, any = false;
        int own = 0;
        for (int r = 0; r < j.group && there; r++) own += values[r * j.a.stride + place] >= threshold[r];
        if (j.a.last && place == j.a.n - 1) own = j.group;
        any = own > 0;
        uint32_t word = __ballot_sync(0xffffffffu, any);
        if (lane == 0) j.bits[at * WORDS + w] = word;
        n += any;
        n_own += own;
    }
    n = block_sum_of<WARPS>(n, part);
    n_own = block_sum_of<WARPS>(n_own, part);
    if (threadIdx.x == 0) {
        j.counts[at] = make_int2(n, n_own);
        is_last = count_in(&j.counters[list], (unsigned)j.n_chunks) == (unsigned)j.n_chunks - 1;
    }
    __syncthreads();
    if (is_last) sum_up(j, list, part);
}

static __global__ void __launch_bounds__(THREADS) list_kernel(kept_job j) {
    __shared__ int part[WARPS], begin[WORDS + 1];
    int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, list = blockIdx.y, chunk = blockIdx.x;
    int64_t at = (int64_t)list * j.n_chunks + chunk;
    start_next();
    wait_for_last();
    int before = 0, own = 0;
    bool is_last = list == j.a.n_lists - 1 && chunk == j.n_chunks - 1;
    for (int i = tid; i < (is_last ? j.a.n_lists : list); i += THREADS) {
        int2 c = __ldcg(&j.totals[i]);
        if (i < list) before += c.x;
        own += c.y;
    }
    int64_t base = block_sum_of<WARPS>(before, part) + __ldcg(&j.before[at]);
    const uint32_t *bits = j.bits + at * WORDS;
    if (warp == 0) { /* where each word's places go */
        int carry = 0;
#pragma unroll
        for (int half = 0; half < WORDS / 32; half++) {
            int x = __popc(bits[half * 32 + lane]), sum = warp_sum_to(x);
            begin[half * 32 + lane] = carry + sum - x;
            carry += __shfl_sync(0xffffffffu, sum, 31);
        }
        if (lane == 0) begin[WORDS] = carry;
    }
    __syncthreads();
    const int32_t *from = j.a.from ? j.a.from + list / (j.a.n_lists / j.a.n_from) * j.a.n : NULL;
    for (int w = warp; w < WORDS; w += WARPS) {
        uint32_t word = bits[w];
        if (!(word >> lane & 1)) continue;
        int64_t place = (int64_t)chunk * CHUNK + w * 32 + lane;
        j.a.rows[base + begin[w] + __popc(word & ((1u << lane) - 1))] = from ? from[place] : (int32_t)place;
    }
    if (tid == 0 && chunk == 0) j.a.start[list] = base;
    if (!is_last) return;
    int64_t n = base + begin[WORDS], n_own = block_sum_of<WARPS>(own, part);
    if (tid > 0) return;
    j.a.start[j.a.n_lists] = n;
    if (!j.a.sums) return;
    j.a.sums[0] += n;
    j.a.sums[1] += n_own;
}

extern "C" sac_status sac_cuda_kept_rows(const sac_stream *s, const sac_kept_rows_args *a) {
    size_t n_bytes;
    uint8_t *rest = scratch_rest(s, &n_bytes);
    int64_t n_chunks = max_of(1, ceil_div(a->n, CHUNK)), all = a->n_lists * n_chunks;
    if (a->n * a->n_rows > INT32_MAX || a->n_lists * sizeof(unsigned) > SCRATCH_COUNTER_BYTES ||
        all * (WORDS * sizeof(uint32_t) + sizeof(int2) + sizeof(int)) + a->n_lists * sizeof(int2) > n_bytes)
        return SAC_UNSUPPORTED;
    kept_job j = {};
    j.a = *a, j.bits = (uint32_t *)rest;
    j.counts = (int2 *)(j.bits + all * WORDS), j.totals = j.counts + all;
    j.before = (int *)(j.totals + a->n_lists), j.counters = scratch_counters(s);
    j.group = a->n_rows / a->n_lists, j.n_chunks = (int)n_chunks;
    dim3 grid((unsigned)n_chunks, (unsigned)a->n_lists);
    SAC_TRY(launch(s, early({grid, THREADS}), mark_kernel, j));
    return launch(s, early({grid, THREADS}), list_kernel, j);
}

} // namespace sac::select
