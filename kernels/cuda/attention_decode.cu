/* attention_decode.cu - few queries against many keys: bound by reading the keys and values once.
 *
 * A problem's rows (queries times the group's heads) fill the 16 rows of a tensor-core tile, so keys are read
 * once for the group (see attention.cuh). Keys are split over blocks, and a block's keys over its warps; each
 * warp has a ring of its own in shared memory which it fills with copies that do not wait, so no warp waits
 * for another until the end. Then warps meet in shared memory and blocks in scratch, where the block that
 * comes last adds up: in the order of the splits, so the bits do not depend on who was last (Flash-Decoding,
 * crfm.stanford.edu/2023/10/12/flashdecoding.html). */
#include "attention_decode.cuh"
#include "cluster.cuh"
#include "context.cuh"

enum { MAX_SPLITS = 256 };

/* Keys of a second view, after the n_far of the first, which are met by queries turned back. */
typedef struct decode_near {
    const void *k, *v;
    int64_t k_row, k_head;
    int n_far, n;
    const float *angles; /* the table's row */
    float f;
} decode_near;

typedef struct decode_plan {
    int n_splits, n_warps;
    bool brief;   /* few keys: waiting, not reading, is what they take */
    float *sums;  /* [problem * tiles + tile][split][ROWS][d] */
    float2 *tops; /* [problem * tiles + tile][split][ROWS]: maximum and sum of weights */
    unsigned *counters;
    decode_near near; /* of TWO views */
} decode_plan;

template <typename T, int D, int STAGES, bool TWO>
static __global__ void __launch_bounds__(256, 1) attention_decode_kernel(attention_job a, decode_plan plan) {
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ bool is_last;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, split = blockIdx.x, tile = blockIdx.y;
    int problem = blockIdx.z, row0 = tile * ROWS;
    /* the stretch of keys that anybody sees, cut into tiles, the tiles into splits, a split's among its warps
     */
    int last_query = min((row0 + ROWS - 1) / a.group, a.n_q - 1), at, end;
    attention_keys keys;
    const decode_near &near = plan.near;
    const int n_far_tiles = TWO ? (near.n_far + KEYS - 1) / KEYS : 0;
    auto share_out = [&]() {
        keys = keys_of(a, problem);
        if (!keys.rows && a.causal) keys.end = min(keys.end, a.first + last_query + 1);
        if (!keys.rows && a.window) keys.begin = max((int64_t)0, a.first + row0 / a.group - a.window + 1);
        int n_tiles = max(0, ((int)(keys.end - keys.begin) + KEYS - 1) / KEYS);
        if (TWO) n_tiles = n_far_tiles + (near.n + KEYS - 1) / KEYS;
        int each = n_tiles / plan.n_splits, more = n_tiles % plan.n_splits; /* the first ones have one more */
        at = each * split + min(split, more) + warp, end = each * (split + 1) + min(split + 1, more);
    };
    int kv_head = problem * a.group / a.heads_per_kv;
    const T *k = (const T *)a.k + kv_head * a.k_head, *v = (const T *)a.v + kv_head * a.k_head;
    const T *near_k = (const T *)near.k + kv_head * near.k_head,
            *near_v = (const T *)near.v + kv_head * near.k_head;
    auto row_of = [&](int tile_at) { /* of key lane % 16; -1 for none */
                                     if (TWO) {
                                         bool is_near = tile_at >= n_far_tiles;
                                         int j = (tile_at - (is_near ? n_far_tiles : 0)) * KEYS + lane % KEYS;
                                         return tile_at < end && j < (is_near ? near.n : near.n_far) ? j : -1;
                                     }
                                     int64_t j = keys.begin + (int64_t)tile_at * KEYS + lane % KEYS;
                                     return tile_at < end && j < keys.end ? (int)key_row(keys, j) : -1;
    };
    auto fetch_tile = [&](int tile_at, uint8_t *stage, int row) {
        bool is_near = TWO && tile_at >= n_far_tiles;
        if (tile_at < end)
            fetch<T, D>(a, is_near ? near_k : k, is_near ? near_v : v, is_near ? near.k_row : a.k_row, stage,
                        row, lane);
        copy_commit();
    };

    /* Few keys come to the L2 cache while the kernel before is at work, ahead of the weights that the kernel
     * after asks for once it may start. Many would only be in the way of that kernel's weights. */
    bool shared_out = plan.brief && !a.rows; /* lists may be new */
    if (shared_out) {
        share_out();
#pragma unroll
        for (int i = 0; i < STAGES - 1; i++) {
            int tile = at + i * plan.n_warps, r = row_of(tile);
            if (r < 0) break;
            bool is_near = TWO && tile >= n_far_tiles;
            const T *row = (is_near       ? lane < KEYS ? near_k : near_v
                            : lane < KEYS ? k
                                          : v) +
                           r * (is_near ? near.k_row : a.k_row);
            for (int c = 0; c < a.d; c += 32 / (int)sizeof(T)) fetch_soon(row + c);
        }
    }
    if (TWO && lane < D / 16) fetch_soon(near.angles + lane * 16);
    start_next();
    wait_for_last();
    if (!shared_out) share_out();
    uint8_t *ring = shared + warp * STAGES * stage_bytes<D>();
    for (int i = lane; a.d < D && i < STAGES * stage_bytes<D>() / 16; i += 32)
        ((uint4 *)ring)[i] = make_uint4(0, 0, 0, 0); /* channels that do not exist */
    __syncwarp();

    int row[STAGES]; /* of key lane % 16, of the tiles in flight */
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) {
        row[i] = row_of(at + i * plan.n_warps);
        fetch_tile(at + i * plan.n_warps, ring + i * stage_bytes<D>(), row[i]);
    }
    decode_state<D> w;
    load_queries<T, D>(a, problem, row0, lane, w.q);
    begin_rows<D>(a, row0, lane, w);
    bool is_far = TWO && at < n_far_tiles;
    if (TWO && is_far) turn_queries<T, D>(w.q, near.angles, near.f, lane);
    while (at < end) {
#pragma unroll
        for (int i = 0; i < STAGES; i++) { /* unrolled, so that a stage's rows are registers */
            if (at >= end) break;
            int ahead = (i + STAGES - 1) % STAGES;
            int next = at + (STAGES - 1) * plan.n_warps;
            row[ahead] = row_of(next);
            fetch_tile(next, ring + ahead * stage_bytes<D>(), row[ahead]);
            if (TWO && is_far && at >= n_far_tiles) {
                load_queries<T, D>(a, problem, row0, lane, w.q);
                is_far = false;
            }
            copy_wait<STAGES - 1>();
            __syncwarp();
            attend<T, D>(a, ring + i * stage_bytes<D>(), row[i], lane, w);
            __syncwarp(); /* all lanes have read the stage before the next copy into it */
            at += plan.n_warps;
        }
    }
    copy_wait<0>();
    __syncthreads(); /* the rings are free */

    /* warps meet: tops [warp][ROWS], then mixes [warp][ROWS][D + 4] */
    float2 *tops = (float2 *)shared;
    float *sums = (float *)(tops + plan.n_warps * ROWS);
    const int sums_pitch = D + 4;
    int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (row0 + 8 * i >= a.n_q * a.group) break; /* eight rows that do not exist */
        w.sum[i] += __shfl_xor_sync(0xffffffffu, w.sum[i], 1);
        w.sum[i] += __shfl_xor_sync(0xffffffffu, w.sum[i], 2);
        if (t == 0) tops[warp * ROWS + g + 8 * i] = make_float2(w.max[i], w.sum[i]);
#pragma unroll
        for (int n = 0; n < D / 8; n++)
            *(float2 *)&sums[(warp * ROWS + g + 8 * i) * sums_pitch + n * 8 + 2 * t] =
                make_float2(w.o[n][2 * i], w.o[n][2 * i + 1]);
    }
    __syncthreads();
    int64_t where = (int64_t)problem * gridDim.y + tile;
    int cluster = cluster_size(), n_parts = plan.n_splits / cluster, part = split / cluster;
    float2 *all_tops = plan.tops + where * n_parts * ROWS;
    float *all_sums = plan.sums + where * n_parts * ROWS * a.d;
    bool last_round = n_parts == 1;
    float2 *out_tops = last_round ? NULL : all_tops + part * ROWS;
    float *out_sums = last_round ? NULL : all_sums + (int64_t)part * ROWS * a.d;
    auto warp_top = [&](int j, int r) { return tops[j * ROWS + r]; };
    auto warp_sum4 = [&](int j, int r, int c) {
        return *(const float4 *)&sums[(j * ROWS + r) * sums_pitch + c];
    };
    if (cluster == 1) {
        join<T, 8>(a, problem, row0, plan.n_warps, threadIdx.x, blockDim.x, warp_top, warp_sum4, out_tops,
                   out_sums);
    } else { /* blocks of a cluster meet in each other's shared memory, each for a share of the channels */
        float *block_sums = sums + plan.n_warps * ROWS * sums_pitch;
        float2 *block_tops = (float2 *)(block_sums + ROWS * D);
        join<T, 8>(a, problem, row0, plan.n_warps, threadIdx.x, blockDim.x, warp_top, warp_sum4, block_tops,
                   block_sums);
        cluster_sync();
        join<T, 8>(
            a, problem, row0, cluster, threadIdx.x * cluster + cluster_rank(), blockDim.x * cluster,
            [&](int j, int r) { return cluster_peer(block_tops, j)[r]; },
            [&](int j, int r, int c) { return *(const float4 *)&cluster_peer(block_sums, j)[r * a.d + c]; },
            out_tops, out_sums);
        cluster_sync(); /* a block may not end while another reads its memory */
    }
    if (last_round) return;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) /* wraps to 0 at the last: ready for the next launch */
        is_last =
            atomicInc(&plan.counters[where], (unsigned)plan.n_splits - 1) == (unsigned)plan.n_splits - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    join<T, 12>(/* other blocks wrote these: not from the L1 cache */
                a, problem, row0, n_parts, threadIdx.x, blockDim.x,
                [&](int j, int r) { return __ldcg(&all_tops[j * ROWS + r]); },
                [&](int j, int r, int c) {
                    return __ldcg((const float4 *)&all_sums[(j * ROWS + r) * a.d + c]);
                },
                NULL, NULL);
}

/* One wave of blocks, each with a tile of keys for every warp at least. Few splits are one cluster, which
 * needs no scratch and nobody who comes last. (Clusters of four for many splits were tried: they leave
 * processors empty.) */
static bool plan_decode(const sac_stream *s, const sac_attention_args *a, const attention_job &j,
                        int64_t tiles, int n_warps, decode_plan *p, int *cluster) {
    int64_t n_keys = a->n_kv, together = (int64_t)j.n_problems * tiles, processors = s->device->n_processors;
    if (!a->lists && a->window) n_keys = min_of(n_keys, a->window + a->n_q);
    int64_t wanted = ceil_div(n_keys, (int64_t)KEYS * n_warps),
            splits = min_of(processors / together, wanted);
    splits = max_of(1, min_of(splits, MAX_SPLITS));
    *cluster = 1;
    if (s->device->compute >= 90 && wanted <= 16 && together * 8 <= processors / 2) {
        while (*cluster * 2 <= min_of(splits, 8)) *cluster *= 2;
        splits = *cluster;
    }
    size_t n_bytes, parts = (size_t)(splits / *cluster),
                    part_bytes = (size_t)together * ROWS * (size_t)(j.d + 2) * 4;
    float *rest = (float *)scratch_rest(s, &n_bytes);
    if (parts > 1 &&
        (part_bytes * parts > n_bytes || (size_t)together * sizeof(unsigned) > SCRATCH_COUNTER_BYTES))
        return false;
    const int64_t few_bytes = 16 << 20;
    bool brief = n_keys * j.d * 4 * a->kv.n_heads <= few_bytes;
    *p = decode_plan{};
    p->n_splits = (int)splits, p->n_warps = n_warps, p->brief = brief;
    p->tops = (float2 *)rest, p->sums = rest + (size_t)together * parts * ROWS * 2;
    p->counters = scratch_counters(s);
    return true;
}

template <typename T, int D, int STAGES, bool TWO = false>
static sac_status launch(const sac_stream *s, const sac_attention_args *a, const attention_job &j,
                         const decode_near &near = decode_near{}) {
    int64_t tiles = ceil_div((int64_t)j.n_q * j.group, ROWS);
    int n_warps = 8, most = 0, size;
    decode_plan p;
    if (cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, s->device->index) !=
        cudaSuccess)
        return SAC_DEVICE;
    most -= 64; /* what the kernel declares itself */
    while (n_warps > 1 && n_warps * STAGES * stage_bytes<D>() > most) n_warps--;
    if (!plan_decode(s, a, j, tiles, n_warps, &p, &size)) return SAC_UNSUPPORTED;
    p.near = near;
    int bytes = n_warps * STAGES * stage_bytes<D>();
    bytes = (int)max_of(bytes, (n_warps * (D + 6) + D + 2) * ROWS * (int)sizeof(float));
    auto kernel = attention_decode_kernel<T, D, STAGES, TWO>;
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess)
        return SAC_DEVICE;
    if (bytes <= STEP_SHARED_BYTES)
        cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, STEP_CARVEOUT);
    cudaLaunchConfig_t c = {};
    cudaLaunchAttribute attributes[2] = {};
    if (s->device->compute >= 90) {
        attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[0].val.programmaticStreamSerializationAllowed = 1;
        attributes[1].id = cudaLaunchAttributeClusterDimension;
        attributes[1].val.clusterDim.x = (unsigned)size;
        attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
        c.attrs = attributes;
        c.numAttrs = size > 1 ? 2 : 1;
    }
    c.gridDim = dim3((unsigned)p.n_splits, (unsigned)tiles, (unsigned)j.n_problems);
    c.blockDim = dim3((unsigned)n_warps * 32);
    c.dynamicSmemBytes = (size_t)bytes;
    c.stream = cuda_stream(s);
    return cudaLaunchKernelEx(&c, kernel, j, p) == cudaSuccess ? launched() : SAC_DEVICE;
}

template <typename T>
static sac_status launch_any(const sac_stream *s, const sac_attention_args *a, const attention_job &j) {
    if (j.d <= 64) return launch<T, 64, 4>(s, a, j);
    if (j.d <= 80) return launch<T, 80, 3>(s, a, j);
    if (j.d <= 96) return launch<T, 96, 3>(s, a, j);
    /* few keys: a warp has two tiles at most, and the kernels beside it the room of a third, which they need
     * if memory is to stay split as it is */
    int64_t tiles = ceil_div((int64_t)j.n_q * j.group, ROWS) * j.n_problems;
    int64_t at_once = min_of(MAX_SPLITS, max_of(1, s->device->n_processors / tiles)) * 8 * KEYS;
    if (!a->lists && a->n_kv <= max_of(2048, 2 * at_once) && s->device->compute >= 90)
        return launch<T, 128, 2>(s, a, j);
    return launch<T, 128, 3>(s, a, j);
}

extern "C" sac_status sac_cuda_attention_decode(const sac_stream *s, const sac_attention_args *a) {
    if (!attention_is_half(a) || a->n_batch != 1 || a->n_q > 4096 || !attention_fits_int(a))
        return SAC_UNSUPPORTED;
    attention_job j = attention_prepare(a);
    if (a->n_q == 0) return SAC_OK;
    if (j.n_problems > 65535) return SAC_UNSUPPORTED;
    return a->kv.dtype == SAC_DTYPE_F16 ? launch_any<half>(s, a, j) : launch_any<bf16>(s, a, j);
}

template <typename T>
static sac_status launch_two(const sac_stream *s, const sac_attention_args *a, const attention_job &j,
                             const decode_near &near) {
    if (s->device->compute < 90)
        return j.d == 64 ? launch<T, 64, 4, true>(s, a, j, near) : launch<T, 128, 3, true>(s, a, j, near);
    return j.d == 64 ? launch<T, 64, 4, true>(s, a, j, near) : launch<T, 128, 2, true>(s, a, j, near);
}

extern "C" sac_status sac_cuda_choice_attend(const sac_stream *s, const sac_choice_attend_args *a) {
    const sac_kv_view *kv = &a->src;
    const sac_rotation *r = &a->rotation;
    int d = kv->head_dim;
    sac_attention_args b = {};
    b.o = b.q = a->q, b.kv = a->far, b.n_heads = a->n_heads, b.scale = a->scale;
    b.n_q = b.n_batch = 1, b.n_kv = a->n_far + a->local;
    if (!attention_is_half(&b) || !attention_fits_int(&b) || (d != 64 && d != 128) || a->far.head_dim != d ||
        kv->dtype != b.kv.dtype || kv->n_heads != b.kv.n_heads || a->n_rows > 1 << 30 ||
        !is_aligned(kv->k, kv->row_stride) || !is_aligned(kv->v, kv->row_stride) || kv->head_stride % 8 ||
        r->rot_dim != d || r->interleaved || (uintptr_t)r->cos_sin % 16)
        return SAC_UNSUPPORTED;
    attention_job j = attention_prepare(&b);
    int64_t old = a->n_rows - a->local;
    decode_near near = {};
    near.k = (const uint8_t *)kv->k + old * kv->row_stride * 2;
    near.v = (const uint8_t *)kv->v + old * kv->row_stride * 2;
    near.k_row = kv->row_stride, near.k_head = kv->head_stride;
    near.n_far = (int)a->n_far, near.n = (int)a->local;
    near.angles = r->cos_sin + (old - a->n_far) * d, near.f = 1 / r->factor;
    return kv->dtype == SAC_DTYPE_F16 ? launch_two<half>(s, &b, j, near) : launch_two<bf16>(s, &b, j, near);
}
