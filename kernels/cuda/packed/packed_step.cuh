/* packed_step.cuh - a step over packed rows and a plain tail, of one sequence or of several: 4- and 2-bit
 * codes on tensor cores.
 *
 * A warp has a key-value head, up to eight of its query heads and a stretch of one part or 16 rows of the
 * tail (packed_mma.cuh). Neighbours among the stretches go to different blocks, so that a multiprocessor has
 * some of each part. Warps meet in shared memory, blocks in scratch, where the block that comes last adds up,
 * in the order of blocks: the bits do not depend on who was last. */
#ifndef SAC_KERNELS_PACKED_STEP_CUH
#define SAC_KERNELS_PACKED_STEP_CUH

#include "context.cuh"
extern "C" {
#include "packed_rows.h"
}
#include "packed_mma.cuh"
#include "waves.cuh"

namespace sac::packed::step {

enum { WARPS = 12, HEADS = STEP_HEADS };

/* One sequence of a launch. */
typedef struct step_sequence {
    int first_part, n_parts;        /* of the job's */
    int tail_warp, n_tail, n_warps; /* the first warp of the tail; all that have something to do */
    int first_block, n_blocks;      /* blocks of the sequences before; of each of its problems */
    int first_split, n_splits;      /* of this launch; of all */
    const void *tail_k, *tail_v;
    int64_t tail_row, tail_head; /* strides */
    void *q;                     /* and the output */
    float *lse;
    float *sums;  /* [problem][split][HEADS][d], splits of all launches */
    float2 *tops; /* [problem][split][HEADS]: largest score, sum of weights */
    unsigned *counters;
} step_sequence;

/* A lone sequence may have as many parts as it wants, in launches one after the other; of several, each has
 * its parts in one launch. */
template <int PARTS, int SEQUENCES> struct step_job {
    enum { MAX_PARTS = PARTS, MAX_SEQUENCES = SEQUENCES };
    int n, n_parts, group, n_subgroups;
    float scale_log2;
    bool joins; /* the last launch */
    step_sequence sequence[SEQUENCES];
    step_part part[PARTS];
};
typedef step_job<32, 1> step_one;
typedef step_job<64, 16> step_many;

/* A head's mix in shared memory: rows of banks of their own for heads beside each other, and channels turned
 * such that lanes write to different ones. */
template <int D> constexpr int mix_pitch(void) {
    return D + 16;
}
__device__ __forceinline__ int mix_place(int quad, int d) {
    return d == 128 ? quad ^ (quad >> 3 & 3) : quad ^ (quad >> 3 & 1);
}

/* Warps meet: each leaves its mix [HEADS][pitch] where its ring was, and tops [warp][HEADS]. The block's part
 * of every head goes to sums and tops_out. */
template <int D>
__device__ __forceinline__ void leave(step_state<D> &w, int n_warps, int n_heads, uint8_t *shared,
                                      float2 (*tops)[HEADS], float *sums, float2 *tops_out) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float *to = (float *)(shared + warp * step_warp_bytes<D>()) + g * mix_pitch<D>();
    w.sum = quad_sum(w.sum);
    __syncwarp(); /* all lanes are through with the warp's memory */
    if (warp < n_warps) {
        if (t == 0) tops[warp][g] = make_float2(w.max, w.sum);
#pragma unroll
        for (int e = 0; e < 2; e++)
#pragma unroll
            for (int i = 0; i < D / 8; i += 4)
                *(float4 *)(to + 4 * mix_place((2 * t + e) * (D / 32) + i / 4, D)) =
                    make_float4(w.mix[i][e], w.mix[i + 1][e], w.mix[i + 2][e], w.mix[i + 3][e]);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n_heads * (D / 4); i += blockDim.x) {
        int h = i / (D / 4), quad = i % (D / 4);
        const uint8_t *from = shared + 4 * (h * mix_pitch<D>() + 4 * mix_place(quad, D));
        float4 x = make_float4(0, 0, 0, 0);
        float2 of[WARPS];
        float top = -CUDART_INF_F, sum = 0;
#pragma unroll
        for (int j = 0; j < WARPS; j++) {
            of[j] = j < n_warps ? tops[j][h] : make_float2(-CUDART_INF_F, 0);
            top = fmaxf(top, of[j].x);
        }
#pragma unroll
        for (int j = 0; j < WARPS; j++) {
            float4 y = make_float4(0, 0, 0, 0);
            if (j < n_warps) y = *(const float4 *)(from + j * step_warp_bytes<D>());
            float f = exp2_fast(of[j].x - top);
            sum += f * of[j].y;
            x.x += f * y.x, x.y += f * y.y, x.z += f * y.z, x.w += f * y.w;
        }
        *(float4 *)(sums + h * D + 4 * quad) = x;
        if (quad == 0) tops_out[h] = make_float2(top, sum);
    }
}

/* What a join needs of shared memory at least: the tops of all splits, a sum and the sums of one split. */
template <int D> constexpr int64_t join_bytes(int64_t n_splits) {
    return n_splits * HEADS * (int64_t)sizeof(float2) + 2 * HEADS * D * (int64_t)sizeof(float);
}

/* Blocks meet, in order: tops are copied to shared memory and become weights while the sums of as many splits
 * as there is room for are copied there. Short loops: all this code is read for the first time. */
template <typename T, int D>
__device__ __forceinline__ void join_blocks(const step_sequence &a, int64_t problem, int head0, int n_heads,
                                            uint8_t *shared, int n_bytes, float *totals) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_warps = blockDim.x / 32;
    int n = a.n_splits, n_quads = n_heads * (D / 4);
    int room = 1 + (int)((n_bytes - join_bytes<D>(n)) / (HEADS * D * (int)sizeof(float)));
    float2 *weights = (float2 *)shared; /* [n][HEADS] */
    float *before = (float *)(weights + n * HEADS), *ring = before + HEADS * D;
    const float2 *tops = a.tops + problem * n * HEADS;
    const float *sums = a.sums + problem * n * (HEADS * D);
#pragma unroll 1
    for (int i = threadIdx.x; i < n * HEADS / 2; i += blockDim.x)
        copy_async(weights + 2 * i, tops + 2 * i, true);
    copy_commit();
    for (int first = 0, end; first < n; first = end) {
        end = min(n, first + room);
#pragma unroll 1
        for (int j = first + warp; j < end; j += n_warps)
#pragma unroll 1
            for (int i = lane; i < n_quads; i += 32)
                copy_async(ring + (j - first) * HEADS * D + 4 * i, sums + (int64_t)j * HEADS * D + 4 * i,
                           true);
        copy_commit();
        if (first == 0) {
            copy_wait<1>();
            __syncthreads();
#pragma unroll 1
            for (int h = warp; h < n_heads; h += n_warps) {
                float top = -CUDART_INF_F, sum = 0;
#pragma unroll 1
                for (int j = lane; j < n; j += 32) top = fmaxf(top, weights[j * HEADS + h].x);
                top = warp_max(top);
#pragma unroll 1
                for (int j = lane; j < n; j += 32) { /* its own */
                    float2 x = weights[j * HEADS + h];
                    weights[j * HEADS + h].x = x.x = exp2_fast(x.x - top);
                    sum += x.x * x.y;
                }
                sum = warp_sum(sum);
                if (lane == 0) {
                    totals[h] = sum;
                    if (a.lse) a.lse[head0 + h] = logf(sum) + top * LN_2;
                }
            }
        }
        copy_wait<0>();
        __syncthreads();
#pragma unroll 1
        for (int i = threadIdx.x; i < n_quads; i += blockDim.x) {
            int h = i / (D / 4);
            float4 x = make_float4(0, 0, 0, 0);
            if (first > 0) x = *(const float4 *)(before + 4 * i);
#pragma unroll 4
            for (int j = first; j < end; j++) {
                float f = weights[j * HEADS + h].x;
                float4 y = *(const float4 *)(ring + (j - first) * HEADS * D + 4 * i);
                x.x += f * y.x, x.y += f * y.y, x.z += f * y.z, x.w += f * y.w;
            }
            if (end < n) {
                *(float4 *)(before + 4 * i) = x;
                continue;
            }
            float f = 1 / totals[h];
            *(uint2 *)((T *)a.q + (int64_t)head0 * D + 4 * i) =
                make_uint2(pack<T>(x.x * f, x.y * f), pack<T>(x.z * f, x.w * f));
        }
        if (end < n) __syncthreads(); /* the ring has been read */
    }
}

template <typename T, int D, typename JOB>
static __global__ void __launch_bounds__(WARPS * 32, 1) packed_step_kernel(const __grid_constant__ JOB job) {
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ float2 tops[WARPS][HEADS];
    __shared__ bool is_last;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, number = 0;
    while (number + 1 < job.n && (int)blockIdx.x >= job.sequence[number + 1].first_block) number++;
    const step_sequence &a = job.sequence[number];
    int n_blocks = a.n_blocks, problem = ((int)blockIdx.x - a.first_block) / n_blocks;
    int block = ((int)blockIdx.x - a.first_block) % n_blocks;
    int kv_head = problem / job.n_subgroups, sub = problem % job.n_subgroups;
    int head0 = kv_head * job.group + sub * HEADS, n_heads = min((int)HEADS, job.group - sub * HEADS);
    int index = warp * n_blocks + block; /* of all warps */
    int part = a.first_part, from = 0, to = 0, bits = 0;
    uint8_t *memory = shared + warp * step_warp_bytes<D>();
    if (index < a.tail_warp) {
        while (part + 1 < a.first_part + a.n_parts && index >= job.part[part + 1].first_warp) part++;
        const step_part &p = job.part[part];
        int at = index - p.first_warp;
        from = at * p.each + min(at, p.rest), to = from + p.each + (at < p.rest);
        bits = p.bits;
    }
    const step_part &p = job.part[part];
    if (bits == 4) start_part<4, D>(p, memory, kv_head, from, to, lane);
    if (bits == 2) start_part<2, D>(p, memory, kv_head, from, to, lane);
    wait_for_last();
    const T *q = lane / 4 < n_heads ? (const T *)a.q + (int64_t)(head0 + lane / 4) * D : NULL;
    step_state<D> w;
#pragma unroll
    for (int i = 0; i < D / 8; i++) w.mix[i][0] = w.mix[i][1] = 0;
    w.max = -CUDART_INF_F, w.sum = w.low = 0;
    if (bits == 4) attend_part<4, D>(p, q, memory, kv_head, from, to, job.scale_log2, lane, w);
    if (bits == 2) attend_part<2, D>(p, q, memory, kv_head, from, to, job.scale_log2, lane, w);
    if (bits == 0 && index < a.n_warps) {
        int row = (index - a.tail_warp) * STEP_TAIL;
        int64_t at = row * a.tail_row + kv_head * a.tail_head;
        attend_tail<T, D>((const T *)a.tail_k + at, (const T *)a.tail_v + at, a.tail_row,
                          min((int)STEP_TAIL, a.n_tail - row), q, job.scale_log2, lane, w);
    }
    start_next(); /* not before: who is next asks for weights, and processors are not free before that */
    int64_t out = (int64_t)problem * a.n_splits + a.first_split + block;
    leave<D>(w, (a.n_warps - block + n_blocks - 1) / n_blocks, n_heads, shared, tops,
             a.sums + out * HEADS * D, a.tops + out * HEADS);
    if (!job.joins) return;
    __syncthreads();
    if (threadIdx.x == 0)
        is_last = count_in(&a.counters[problem], (unsigned)n_blocks) == (unsigned)n_blocks - 1;
    __syncthreads();
    if (!is_last) return;
    join_blocks<T, D>(a, problem, head0, n_heads, shared, (int)blockDim.x / 32 * step_warp_bytes<D>(),
                      (float *)tops);
}

/* ---------------------------------------------------------------- the host's side */

static inline bool fits(const sac_packed_step_args *a, const sac_packed_rows *p) {
    return (p->bits == 2 || p->bits == 4) && p->k_group >= p->capacity && p->k_group > 0 &&
           p->v_group >= p->n_heads * p->head_dim && (uintptr_t)p->k % 16 == 0 && (uintptr_t)p->v % 16 == 0 &&
           p->capacity <= INT32_MAX - STEP_TILE && p->n_heads == a->tail.n_heads &&
           p->head_dim == a->tail.head_dim;
}

/* Shares are counted in parts of a tile: with whole ones in mind a card's last warps would get nothing. */
enum { TILE_SHARE = 16 };

/* Warps for a part when each is to have about `most` / TILE_SHARE tiles, and one at least. */
static inline int64_t warps_for(const step_part *p, int64_t most) {
    int64_t tiles = ceil_div(p->n, STEP_TILE);
    return min_of(tiles, ceil_div(tiles * TILE_SHARE, most));
}

/* The next parts of a sequence from *at on, as many as the launch has room for, and the tail when these are
 * the last. */
template <typename JOB>
static void take_parts(const sac_packed_step_args *a, int *at, JOB *j, step_sequence *q) {
    *q = step_sequence{};
    q->first_part = j->n_parts;
    for (; *at < a->n_parts && j->n_parts < JOB::MAX_PARTS; ++*at) {
        const sac_packed_rows *p = &a->parts[*at];
        if (p->n == 0) continue;
        j->part[j->n_parts++] = step_part{p->k,
                                          p->v,
                                          p->k_scale,
                                          p->k_min,
                                          p->v_scale,
                                          p->v_min,
                                          p->v_channel,
                                          (int)p->n,
                                          (int)p->capacity,
                                          p->bits,
                                          0,
                                          0,
                                          0,
                                          0};
    }
    while (*at < a->n_parts && a->parts[*at].n == 0) ++*at;
    q->n_parts = j->n_parts - q->first_part;
    q->n_tail = *at == a->n_parts ? (int)a->tail.n_rows : 0;
    q->tail_k = a->tail.k, q->tail_v = a->tail.v;
    q->tail_row = a->tail.row_stride, q->tail_head = a->tail.head_stride;
    q->q = a->q.data, q->lse = a->lse;
}

/* Warps go to parts such that each has about `most` to do. Returns how many blocks all need. */
template <typename JOB> static int64_t give_warps(JOB *j, int64_t problems, int block_warps, int64_t most) {
    int64_t blocks = 0;
    for (int i = 0; i < j->n; i++) {
        step_sequence *q = &j->sequence[i];
        int64_t needed = 0;
        for (int p = q->first_part; p < q->first_part + q->n_parts; p++) {
            j->part[p].first_warp = (int)needed;
            j->part[p].n_warps = (int)warps_for(&j->part[p], most);
            needed += j->part[p].n_warps;
            int tiles = (int)ceil_div(j->part[p].n, STEP_TILE);
            j->part[p].each = tiles / j->part[p].n_warps, j->part[p].rest = tiles % j->part[p].n_warps;
        }
        q->tail_warp = (int)needed;
        q->n_warps = (int)(needed + ceil_div(q->n_tail, STEP_TAIL));
        q->n_blocks = (int)ceil_div(q->n_warps, block_warps);
        blocks += problems * q->n_blocks;
    }
    return blocks;
}

/* The one with most to do has least, in as many waves of blocks as are through first. Returns how many. */
template <typename JOB> static int plan(const sac_stream *s, JOB *j, int64_t problems, int block_warps) {
    int64_t worst = 1, processors = s->device->n_processors, blocks = 0;
    for (int p = 0; p < j->n_parts; p++)
        worst = max_of(worst, ceil_div(j->part[p].n, STEP_TILE) * TILE_SHARE);
    int64_t best =
        best_share([=](int64_t most) { return give_warps(j, problems, block_warps, most); }, worst,
                   j->n > 1 ? MANY_WAVES : 1, processors, problems * j->n, PACKED_BLOCK_TILES * TILE_SHARE);
    int64_t spare = max_of(processors - give_warps(j, problems, block_warps, best), 0) / problems;
    for (int i = 0; i < j->n; i++) { /* few warps: fewer in a block */
        step_sequence *q = &j->sequence[i];
        int64_t more = max_of(min_of(ceil_div(q->n_warps, PACKED_WARPS_WANTED) - q->n_blocks, spare), 0);
        q->n_blocks += (int)more, spare -= more;
        q->first_block = (int)blocks;
        blocks += problems * q->n_blocks;
    }
    return (int)blocks;
}

/* Warps of a block whose rings fit beside what the kernel declares itself; 0: the driver does not say. */
template <int D> static int fitting_warps(const sac_device *d) {
    int most_bytes = 0, warps = WARPS;
    if (cudaDeviceGetAttribute(&most_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, d->index) != cudaSuccess)
        return 0;
    most_bytes -= HEADS * WARPS * 8 + 64;
    while (warps > 1 && warps * step_warp_bytes<D>() > most_bytes) warps--;
    return warps;
}

/* Scratch for the splits of a job's sequences. */
template <int D, typename JOB>
static bool take_scratch(const sac_stream *s, JOB *j, int64_t problems, int64_t shared_bytes) {
    size_t n_bytes, tops = 0, n_counters = (size_t)j->n * (size_t)problems;
    float *rest = (float *)scratch_rest(s, &n_bytes);
    for (int i = 0; i < j->n; i++) {
        tops += (size_t)(problems * j->sequence[i].n_splits) * HEADS;
        if (join_bytes<D>(j->sequence[i].n_splits) > shared_bytes) return false;
    }
    if (tops * (D + 2) * sizeof(float) > n_bytes || n_counters * sizeof(unsigned) > SCRATCH_COUNTER_BYTES)
        return false;
    size_t at = 0;
    for (int i = 0; i < j->n; i++) {
        step_sequence *q = &j->sequence[i];
        q->tops = (float2 *)rest + at, q->sums = rest + 2 * tops + at * D;
        q->counters = scratch_counters(s) + (size_t)i * (size_t)problems;
        at += (size_t)(problems * q->n_splits) * HEADS;
    }
    return true;
}

template <typename T, int D, typename JOB>
static sac_status start(const sac_stream *s, const JOB &j, int blocks, int warps) {
    int bytes = warps * step_warp_bytes<D>();
    auto kernel = packed_step_kernel<T, D, JOB>;
    const launch_plan plan = {(unsigned)blocks, (unsigned)warps * 32, (size_t)bytes, bytes};
    if (!ops_of(s)->packs) return launch(s, early(plan), kernel, j);
    sac_status st = launch(s, plan, kernel, j);
    ops_of(s)->packs = st != SAC_OK; /* this one is behind all that was packed: so are those that follow */
    return st;
}

template <typename JOB> static int64_t describe(JOB *j, const sac_packed_step_args *a) {
    j->group = a->n_heads / a->tail.n_heads;
    j->n_subgroups = (int)ceil_div(j->group, HEADS);
    j->scale_log2 = a->scale * LOG2_E;
    return (int64_t)a->tail.n_heads * j->n_subgroups;
}

/* What these kernels know. */
static inline bool is_known(const sac_packed_step_args *a) {
    const sac_kv_view *tail = &a->tail;
    if (a->weights || !is_half(a->q.dtype) || tail->dtype != a->q.dtype ||
        (tail->head_dim != 64 && tail->head_dim != 128) || (uintptr_t)a->q.data % 8 != 0)
        return false;
    if (tail->n_rows && (!is_aligned(tail->k, tail->row_stride) || !is_aligned(tail->v, tail->row_stride) ||
                         tail->head_stride % 8 || tail->n_rows > 1 << 20))
        return false;
    for (int i = 0; i < a->n_parts; i++)
        if (!fits(a, &a->parts[i])) return false;
    return true;
}

} // namespace sac::packed::step

#endif
