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

#include "gemv.cuh"
#include "mma.cuh"

#include <atomic>

namespace stream_pairs {

/* AHEAD lines of a warp are on their way, asked for BURST at a time. */
enum { AHEAD = 4, BURST = 2, MAX_PAIRS = 1024 };
static_assert(AHEAD % BURST == 0, "");

/* How a job is laid out: BLOCKS blocks of WARPS warps on a processor, which fill its registers. SOON lines
 * of a warp more go to the L2 cache at first, and LATE more once the kernel before is through: it pays for
 * qkv alone. */
template <int W, int B, int S, int L> struct shape {
    enum { WARPS = W, BLOCKS = B, SOON = S, LATE = L, THREADS = W * 32 };
    static_assert(S <= 16 && L <= 16 && W * B <= 64, "");
};

typedef struct input {
    const void *x;     /* [k], 16-byte aligned */
    const float *norm; /* [k], for a job that is NORMED */
    float eps;
    int k, lines, n_pairs, most; /* lines of a row, or of a half; pairs of a block, at most */
} input;

/* Which stretch of pairs a block has: blocks lie one a processor first, then a second one on each .., and
 * where a few pairs more or less count, those of a processor are to have as many as those of the next. The
 * same holds for blocks in a row, which come together where a kernel before leaves its processors. */
template <int BLOCKS> __device__ __forceinline__ int stretch_of_block(void) {
    int rounds = (int)gridDim.x / BLOCKS;
    return gridDim.x % BLOCKS ? (int)blockIdx.x
                              : (int)blockIdx.x % rounds * BLOCKS + (int)blockIdx.x / rounds;
}

/* What a pair's sums meet at the end: filled by the job, in shared memory. */
typedef struct extra {
    float bias[2], more[2];
} extra;

/* x, or x / sqrt(mean x^2 + eps) * norm rounded to T as the op alone would. `norm` is in shared memory, each
 * thread's part copied by itself. */
template <typename T, bool NORMED, int THREADS>
__device__ __forceinline__ void take_x(const input &in, T *to, const float *norm, float *part) {
    const T *x = (const T *)in.x;
    const int all = THREADS * 8, first = threadIdx.x * 8;
    if (!NORMED) {
#pragma unroll 1
        for (int i = first; i < in.k; i += all) copy_async(to + i, x + i, true);
        copy_commit();
        copy_wait<0>();
        __syncthreads();
        return;
    }
    float sum = 0;
#pragma unroll 2
    for (int i = first; i < in.k; i += all) { /* what a thread puts here it takes back itself */
        float e[8];
        uint4 v = *(const uint4 *)(x + i);
        *(uint4 *)(to + i) = v;
        unpack(v, e, T());
#pragma unroll
        for (int j = 0; j < 8; j++) sum += e[j] * e[j];
    }
    float scale = 1.0f / sqrtf(block_sum(sum, part) / (float)in.k + in.eps);
    copy_wait<1>();
#pragma unroll 1
    for (int i = first; i < in.k; i += all) {
        float e[8], g[8];
        unpack(*(const uint4 *)(to + i), e, T());
        load<8>(g, norm + i);
#pragma unroll
        for (int j = 0; j < 8; j++) e[j] = e[j] * scale * g[j];
        store<8>(to + i, e);
    }
    __syncthreads();
}

/* Lines [begin, end) of a block's list to the L2 cache, two lanes a line: 16 at most. */
template <typename T>
__device__ __forceinline__ void fetch_lines(const input &in, const T *const *table, int begin, int end,
                                            int apart) {
    int lane = threadIdx.x % 32, at = begin + lane / 2, pair = at / in.lines;
    int col = (at - pair * in.lines) * LINE, left = in.k - col - lane % 2 * apart;
    if (at < end && left > 0)
        fetch_soon(table[2 * pair + lane % 2] + col, min((int)LINE, left) * (int)sizeof(T));
    __syncwarp();
}

/* JOB has shape; NORMED: whether x is; HALVES: whether a pair is one row, its second half beside its first;
 * rows(pair, k, &first, &second): where a pair's rows begin; early(pair, &extra): copies that do not wait, of
 * what no kernel writes; warm(pair): prefetches; late<T>(pair, &extra): loads of what a kernel wrote;
 * finish<T>(pair, sum of the first, of the second, extra). */
template <typename T, typename JOB>
static __global__ void __launch_bounds__(JOB::shape::THREADS, JOB::shape::BLOCKS) kernel(input in, JOB job) {
    typedef typename JOB::shape shape;
    const int WARPS = shape::WARPS, THREADS = shape::THREADS;
    extern __shared__ __align__(128) uint8_t shared[]; /* lines of x on lines of banks */
    __shared__ float part[32];
    __shared__ float2 carried[shape::WARPS]; /* sums of a pair that began in a warp before */
    T *x = (T *)shared;
    const int apart = JOB::HALVES ? in.lines * LINE : 0; /* of what both rows of a pair meet in x */
    float *norm = (float *)(x + in.lines * LINE + apart);
    const T **table = (const T **)(norm + (JOB::NORMED ? in.k : 0)); /* where a pair's rows begin */
    extra *extras = (extra *)(table + 2 * in.most);
    float2 *sums = (float2 *)(extras + in.most);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int stretch = stretch_of_block<shape::BLOCKS>(), first = (int)((int64_t)stretch * in.n_pairs / gridDim.x);
    int n = (int)((int64_t)(stretch + 1) * in.n_pairs / gridDim.x) - first, n_lines = n * in.lines;
    int begin = warp * n_lines / WARPS, end = (warp + 1) * n_lines / WARPS;
    const uint4 zero = make_uint4(0, 0, 0, 0);
    start_next();

#pragma unroll 1
    for (int i = threadIdx.x; i < n; i += THREADS) job.rows(first + i, in.k, table[2 * i], table[2 * i + 1]);
    if (JOB::NORMED) {
#pragma unroll 1
        for (int i = threadIdx.x * 8; i < in.k; i += THREADS * 8) {
            copy_async(norm + i, in.norm + i, true);
            copy_async(norm + i + 4, in.norm + i + 4, true);
        }
    }
    copy_commit();
    __syncthreads();
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
    const T *w0 = table[2 * min(pair, n - 1)] + line * LINE + lane * 8;
    const T *w1 = table[2 * min(pair, n - 1) + 1] + line * LINE + lane * 8;
    auto fetch = [&](uint4 &a0, uint4 &a1) {
        int at = line * LINE + lane * 8;
        a0 = at < in.k ? stream(w0) : zero;
        a1 = at + apart < in.k ? stream(w1) : zero;
        w0 += LINE;
        w1 += LINE;
        if (++line == in.lines) {
            line = 0;
            pair = min(pair + 1, n - 1);
            w0 = table[2 * pair] + lane * 8;
            w1 = table[2 * pair + 1] + lane * 8;
        }
    };
    uint4 a[2][AHEAD];
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
        if (begin + u < end) fetch(a[0][u], a[1][u]);
    if (shape::SOON) fetch_lines(in, table, begin + AHEAD, min(end, begin + AHEAD + shape::SOON), apart);
#pragma unroll 1
    for (int i = in.k + threadIdx.x; i < in.lines * LINE + apart; i += THREADS) x[i] = from_f32<T>(0);

    wait_for_last();
    if (shape::LATE) {
        int from = begin + AHEAD + shape::SOON;
        fetch_lines(in, table, from, min(end, from + shape::LATE), apart);
    }
    if (warp == WARPS - 1) {
#pragma unroll 1
        for (int i = lane; i < n; i += 32) job.template late<T>(first + i, extras[i]);
    }
    take_x<T, JOB::NORMED, THREADS>(in, x, norm, part);

    float acc[2] = {0, 0};
    int done_line = begin % in.lines;
    float2 *to = done_line ? &carried[warp] : &sums[begin / in.lines], *then = &sums[begin / in.lines + 1];
    const T *xs = x + lane * 8;
    for (int left = end - begin; left > 0; left -= AHEAD) {
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            if (u < left) {
                float f[8], e[8];
                unpack(*(const uint4 *)(xs + done_line * LINE), f, T());
                unpack(a[0][u], e, T());
#pragma unroll
                for (int j = 0; j < 8; j++) acc[0] += e[j] * f[j];
                if (JOB::HALVES) unpack(*(const uint4 *)(xs + done_line * LINE + apart), f, T());
                unpack(a[1][u], e, T());
#pragma unroll
                for (int j = 0; j < 8; j++) acc[1] += e[j] * f[j];
                if (++done_line == in.lines || u + 1 == left) {
                    float2 sum = JOB::HALVES ? make_float2(warp_sum(acc[0] + acc[1]), 0)
                                             : make_float2(warp_sum(acc[0]), warp_sum(acc[1]));
                    if (lane == 0) *to = sum;
                    to = then++;
                    acc[0] = acc[1] = 0;
                    done_line = 0;
                }
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
        for (int w = 1; w < WARPS; w++) {
            int from = w * n_lines / WARPS;
            if (from > i * in.lines && from < (i + 1) * in.lines && from < (w + 1) * n_lines / WARPS)
                sum.x += carried[w].x, sum.y += carried[w].y;
        }
        job.template finish<T>(first + i, sum.x, sum.y, extras[i]);
    }
}

/* Shared memory that a block may have here. */
static inline int most_bytes(const sac_device *d) {
    return (block_shared_bytes(d) >= 160 << 10 ? 160 : 96) << 10;
}

/* The driver has to hear of that once a kernel and card. */
template <typename T, typename JOB> static sac_status make_room(const sac_device *d) {
    static std::atomic<bool> told[64];
    if (d->index < 64 && told[d->index].load()) return SAC_OK;
    cudaFuncSetAttribute(kernel<T, JOB>, cudaFuncAttributePreferredSharedMemoryCarveout, STEP_CARVEOUT);
    SAC_TRY((allow_shared(kernel<T, JOB>, most_bytes(d))));
    if (d->index < 64) told[d->index].store(true);
    return SAC_OK;
}

/* One wave of blocks, as far as a block can take its share. UNSUPPORTED where x does not fit. */
template <typename T, typename JOB>
static sac_status launch(const sac_stream *s, const void *x, const float *norm, float eps, int64_t k,
                         int64_t n_pairs, const JOB &job) {
    int64_t blocks = min_of(n_pairs, (int64_t)s->device->n_processors * JOB::shape::BLOCKS);
    blocks = max_of(blocks, ceil_div(n_pairs, MAX_PAIRS));
    const int halves = JOB::HALVES ? 2 : 1;
    input in = {
        x, norm, eps, (int)k, (int)ceil_div(k, LINE * halves), (int)n_pairs, (int)ceil_div(n_pairs, blocks)};
    size_t bytes = (size_t)in.lines * LINE * halves * sizeof(T) +
                   (JOB::NORMED ? (size_t)k * sizeof(float) : 0) +
                   (size_t)in.most * (2 * sizeof(void *) + sizeof(extra) + sizeof(float2));
    if (bytes > (size_t)most_bytes(s->device)) return SAC_UNSUPPORTED;
    SAC_TRY((make_room<T, JOB>(s->device)));
    return launch_early(s, kernel<T, JOB>, (unsigned)blocks, JOB::shape::THREADS, bytes, in, job);
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

#endif
