/* stream_pairs.cuh - one row of x against weights that are read once: bound by reading them.
 *
 * Rows of weights go in pairs (two channels that rope turns together, a channel's gate and up, two
 * neighbours). A block has a stretch of pairs, and the lines of all of them (512 bytes of both rows) are one
 * list that its warps share evenly, so no warp runs dry where a pair ends and every block has as much to do
 * as the next. Where a pair crosses from warp to warp its sums meet in shared memory, in the order of the
 * warps.
 *
 * While the kernel before is still at work a warp asks for its first lines: the card's memory is busy while
 * the last sums of that kernel come together.
 * Whatever else will be wanted (norm, bias, rotation, what y is added to) is asked for before, so that it
 * does not queue behind the weights. */
#ifndef SAC_KERNELS_STREAM_PAIRS_CUH
#define SAC_KERNELS_STREAM_PAIRS_CUH

#include "half_weights.cuh"
#include "mma.cuh"

#include <atomic>

namespace sac::linear {

namespace stream_pairs {

/* BLOCKS blocks on a processor fill its registers: more of them would ask for x more often. AHEAD lines of a
 * warp are on their way, asked for BURST at a time. */
enum { WARPS = 16, BLOCKS = 2, THREADS = WARPS * 32, AHEAD = 4, BURST = 2 };
enum { MAX_PAIRS = 1024 /* of a block */, MAX_BLOCKS = 1 << 15 };
static_assert(AHEAD % BURST == 0, "");

typedef struct input {
    const void *x;     /* [k], 16-byte aligned */
    const float *norm; /* [k], for a job that is NORMED */
    float eps;
    int k, lines;         /* lines of a row, or of a half */
    int each, rest, most; /* pairs of a block at least, those left over, pairs of a block at most */
} input;

/* Which stretch of pairs a block has: blocks lie one a processor first, then a second one on each .., and
 * where a few pairs more or less count, those of a processor are to have as many as those of the next. The
 * same holds for blocks in a row, which come together where a kernel before leaves its processors. */
__device__ __forceinline__ int stretch_of_block(void) {
    int rounds = (int)gridDim.x / BLOCKS;
    return gridDim.x % BLOCKS ? (int)blockIdx.x
                              : (int)blockIdx.x % rounds * BLOCKS + (int)blockIdx.x / rounds;
}

/* Pairs of all stretches before one: those left over lie apart. */
__device__ __forceinline__ int pairs_before(const input &in, int stretch) {
    return stretch * in.each + (int)((unsigned)(stretch * in.rest) / gridDim.x);
}

/* What a pair's sums meet at the end, in shared memory: filled by the job, but for the warps that begin
 * within the pair. */
typedef struct extra {
    float bias[2], more[2];
    void *to;
    int second; /* elements from `to` on */
    bool turned;
    int first_warp, end_warp;
} extra;

/* x becomes x / sqrt(mean x^2 + eps) * norm, rounded to T as the op alone would; each thread's part of both
 * is what it copied itself. */
template <typename T>
__device__ __forceinline__ void norm_x(const input &in, T *x, const float *norm, float *part) {
    float sum = 0;
#pragma unroll 1
    for (int i = threadIdx.x * 8; i < in.k; i += THREADS * 8) {
        float e[8];
        weights::unpack_eight(*(const uint4 *)(x + i), e, T());
#pragma unroll
        for (int j = 0; j < 8; j++) sum += e[j] * e[j];
    }
    float scale = 1.0f / sqrtf(block_sum(sum, part) / (float)in.k + in.eps);
#pragma unroll 1
    for (int i = threadIdx.x * 8; i < in.k; i += THREADS * 8) {
        float e[8], g[8];
        weights::unpack_eight(*(const uint4 *)(x + i), e, T());
        load<8>(g, norm + i);
#pragma unroll
        for (int j = 0; j < 8; j++) e[j] = e[j] * scale * g[j];
        store<8>(x + i, e);
    }
}

/* Lines [begin, end) of a block's list to the L2 cache, two lanes a line: 16 at most. */
template <typename W, typename JOB>
__device__ __forceinline__ void fetch_lines(const input &in, const JOB &job, int first, int begin, int end,
                                            int apart) {
    using T = typename W::stored;
    int lane = threadIdx.x % 32, at = begin + lane / 2, pair = at / in.lines;
    int col = (at - pair * in.lines) * W::LINE, left = in.k - col - lane % 2 * apart;
    if (at < end && left > 0) {
        const T *w0, *w1;
        job.rows(first + pair, in.k, w0, w1);
        fetch_soon((lane % 2 ? w1 : w0) + col, min((int)W::LINE, left) * (int)sizeof(T));
    }
    __syncwarp();
}

/* W: how weights are stored (half_weights.cuh). JOB has NORMED: whether x is; HALVES: whether a pair is
 * one row, its second half beside its first; LATE: lines of a warp, at most 16, that go to the L2 cache
 * while x is on its way; rows(pair, k, &first, &second): where a pair's rows begin; early(pair, &extra):
 * copies that do not wait, of what no kernel writes; warm(pair): prefetches; late<T>(pair, &extra): loads
 * of what a kernel wrote; finish<T>(pair, sum of the first, of the second, extra). */
template <typename W, typename JOB>
static __global__ void __launch_bounds__(THREADS, BLOCKS) kernel(input in, JOB job) {
    using T = typename W::number;
    constexpr int LINE = W::LINE;
    extern __shared__ __align__(128) uint8_t shared[]; /* lines of x on lines of banks */
    __shared__ float part[32];
    __shared__ float2 carried[WARPS]; /* sums of a pair that began in a warp before */
    T *x = (T *)shared;
    const int apart = JOB::HALVES ? in.lines * LINE : 0; /* of what both rows of a pair meet in x */
    float *norm = (float *)(x + in.lines * LINE + apart);
    extra *extras = (extra *)(norm + (JOB::NORMED ? in.k : 0));
    float2 *sums = (float2 *)(extras + in.most);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int stretch = stretch_of_block(), first = pairs_before(in, stretch);
    int n = pairs_before(in, stretch + 1) - first, n_lines = n * in.lines;
    int begin = warp * n_lines / WARPS, end = (warp + 1) * n_lines / WARPS;
    start_next();

    if (JOB::NORMED) {
#pragma unroll 1
        for (int i = threadIdx.x * 8; i < in.k; i += THREADS * 8) {
            copy_async(norm + i, in.norm + i, true);
            copy_async(norm + i + 4, in.norm + i + 4, true);
        }
    }
    copy_commit();
    if (warp == WARPS - 1) {
#pragma unroll 1
        for (int i = lane; i < n; i += 32) {
            job.early(first + i, extras[i]);
            job.warm(first + i);
        }
    }
    copy_commit();

    /* the next line to ask for */
    int pair = begin / in.lines, line = begin - pair * in.lines;
    const typename W::stored *w0, *w1;
    job.rows(first + min(pair, n - 1), in.k, w0, w1);
    w0 += line * W::LINE_STORED + lane * W::SHARE_STORED;
    w1 += line * W::LINE_STORED + lane * W::SHARE_STORED;
    auto fetch = [&](typename W::share &a0, typename W::share &a1) {
        int at = line * LINE + lane * 8;
        a0 = W::load(at < in.k ? w0 : (const typename W::stored *)&weights::zero_line);
        a1 = W::load(at + apart < in.k ? w1 : (const typename W::stored *)&weights::zero_line);
        w0 += W::LINE_STORED;
        w1 += W::LINE_STORED;
        if (++line == in.lines) {
            line = 0;
            pair = min(pair + 1, n - 1);
            job.rows(first + pair, in.k, w0, w1);
            w0 += lane * W::SHARE_STORED;
            w1 += lane * W::SHARE_STORED;
        }
    };
    typename W::share a[2][AHEAD];
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
        a[0][u] = a[1][u] = make_uint4(0, 0, 0, 0);
        if (begin + u < end) fetch(a[0][u], a[1][u]);
    }
#pragma unroll 1
    for (int i = threadIdx.x; i < n; i += THREADS) { /* i lines < w n_lines / WARPS < (i + 1) lines */
        extras[i].first_warp = ((i * in.lines + 1) * WARPS + n_lines - 1) / n_lines;
        extras[i].end_warp = min((int)WARPS, ((i + 1) * in.lines * WARPS + n_lines - 1) / n_lines);
    }
    if (lane == 0) carried[warp] = make_float2(0, 0);
#pragma unroll 1
    for (int i = in.k + threadIdx.x; i < in.lines * LINE + apart; i += THREADS) x[i] = from_f32<T>(0);

    wait_for_last();
    /* not through registers: who waits for a load may wait for all the weights that were asked for before */
#pragma unroll 1
    for (int i = threadIdx.x * 8; i < in.k; i += THREADS * 8) copy_async(x + i, (const T *)in.x + i, true);
    copy_commit();
    if (JOB::LATE) fetch_lines<W>(in, job, first, begin + AHEAD, min(end, begin + AHEAD + JOB::LATE), apart);
    if (warp == WARPS - 1) {
#pragma unroll 1
        for (int i = lane; i < n; i += 32) job.template late<T>(first + i, extras[i]);
    }
    copy_wait<0>();
    if (JOB::NORMED) norm_x(in, x, norm, part);
    __syncthreads();

    float acc[2] = {0, 0};
    int done_line = begin % in.lines;
    float2 *to = done_line ? &carried[warp] : &sums[begin / in.lines], *then = &sums[begin / in.lines + 1];
    const T *xs = x + lane * 8;
    /* All AHEAD lines are added, those behind the end to sums that nobody takes. Before another line takes
     * the registers of one that is added under a condition, the compiler waits, and so for all asked for
     * since. */
    for (int left = end - begin; left > 0; left -= AHEAD) {
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            float f[8], e[8];
            weights::unpack_eight(*(const uint4 *)(xs + done_line * LINE), f, T());
            W::unpack(a[0][u], e);
#pragma unroll
            for (int j = 0; j < 8; j++) acc[0] += e[j] * f[j];
            if (JOB::HALVES) weights::unpack_eight(*(const uint4 *)(xs + done_line * LINE + apart), f, T());
            W::unpack(a[1][u], e);
#pragma unroll
            for (int j = 0; j < 8; j++) acc[1] += e[j] * f[j];
            if (u < left && (++done_line == in.lines || u + 1 == left)) {
                float2 sum = JOB::HALVES ? make_float2(warp_sum(acc[0] + acc[1]), 0)
                                         : make_float2(warp_sum(acc[0]), warp_sum(acc[1]));
                if (lane == 0) *to = sum;
                to = then++;
                acc[0] = acc[1] = 0;
                done_line = 0;
            }
            if (u % BURST == BURST - 1) {
#pragma unroll
                for (int v = u - BURST + 1; v <= u; v++)
                    if (v + AHEAD < left) fetch(a[0][v], a[1][v]);
            }
        }
    }
    copy_wait<0>();
    __syncthreads();
#pragma unroll 1
    for (int i = threadIdx.x; i < n; i += THREADS) {
        float2 sum = sums[i];
        for (int w = extras[i].first_warp; w < extras[i].end_warp; w++)
            sum.x += carried[w].x, sum.y += carried[w].y;
        job.template finish<T>(first + i, sum.x, sum.y, extras[i]);
    }
}

/* Shared memory that a block may have here. */
static inline int most_bytes(const sac_device *d) {
    return (block_shared_bytes(d) >= 160 << 10 ? 160 : 96) << 10;
}

/* The driver has to hear of that once a kernel and card. */
template <typename W, typename JOB> static sac_status make_room(const sac_device *d) {
    static std::atomic<bool> told[64];
    if (d->index < 64 && told[d->index].load()) return SAC_OK;
    (void)status_of(
        cudaFuncSetAttribute(kernel<W, JOB>, cudaFuncAttributePreferredSharedMemoryCarveout, STEP_CARVEOUT));
    SAC_TRY((allow_shared(kernel<W, JOB>, most_bytes(d))));
    if (d->index < 64) told[d->index].store(true);
    return SAC_OK;
}

/* One wave of blocks, as far as a block can take its share. UNSUPPORTED where x does not fit, and with more
 * than MAX_BLOCKS * MAX_PAIRS pairs. */
template <typename W, typename JOB>
static sac_status run(const sac_stream *s, const void *x, const float *norm, float eps, int64_t k,
                      int64_t n_pairs, const JOB &job) {
    int64_t blocks = min_of(n_pairs, (int64_t)s->device->n_processors * BLOCKS);
    blocks = max_of(blocks, ceil_div(n_pairs, MAX_PAIRS));
    const int halves = JOB::HALVES ? 2 : 1;
    if (blocks > MAX_BLOCKS) return SAC_UNSUPPORTED;
    input in = {x,
                norm,
                eps,
                (int)k,
                (int)ceil_div(k, W::LINE * halves),
                (int)(n_pairs / blocks),
                (int)(n_pairs % blocks),
                (int)ceil_div(n_pairs, blocks)};
    size_t bytes = (size_t)in.lines * W::LINE * halves * sizeof(typename W::number) +
                   (JOB::NORMED ? (size_t)k * sizeof(float) : 0) +
                   (size_t)in.most * (sizeof(extra) + sizeof(float2));
    if (bytes > (size_t)most_bytes(s->device)) return SAC_UNSUPPORTED;
    SAC_TRY((make_room<W, JOB>(s->device)));
    return launch(s, early({(unsigned)blocks, THREADS, bytes}), kernel<W, JOB>, in, job);
}

/* 4 bytes to shared memory, or 0. */
__device__ __forceinline__ void copy_float(float *shared, const float *from, bool valid) {
#ifdef __CUDA_ARCH__
    uint32_t at = shared_address(shared);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from), "r"(valid ? 4 : 0)
                 : "memory");
#else
    *shared = valid ? *from : 0;
#endif
}

} // namespace stream_pairs

} // namespace sac::linear

#endif
