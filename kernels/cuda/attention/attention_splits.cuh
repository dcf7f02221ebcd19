/* attention_splits.cuh - few queries of one sequence against its keys, in one view or in two: a grid of
 * splits, tiles of rows and problems over the blocks of attention_decode.cuh. */
#ifndef SAC_KERNELS_ATTENTION_SPLITS_CUH
#define SAC_KERNELS_ATTENTION_SPLITS_CUH

#include "attention_decode.cuh"
#include "context.cuh"

#include <atomic>

namespace sac::attention::decode {

typedef struct decode_plan {
    int n_splits, n_warps, inbox;
    bool brief;   /* few keys: waiting, not reading, is what they take */
    float *sums;  /* [problem * tiles + tile][split][ROWS][d] */
    float2 *tops; /* [problem * tiles + tile][split][ROWS]: maximum and sum of weights */
    unsigned *counters;
    decode_near near; /* of TWO views */
} decode_plan;

template <typename T, int D, int STAGES, bool TWO, typename JOB>
static __global__ void __launch_bounds__(256, 1) attention_decode_kernel(JOB a, decode_plan plan) {
    extern __shared__ __align__(128) uint8_t shared[];
    int64_t where = (int64_t)blockIdx.z * gridDim.y + blockIdx.y, at = where * plan.n_splits * ROWS;
    decode_place place = {(int)blockIdx.z,      (int)blockIdx.y,      (int)blockIdx.x, plan.n_splits,
                          plan.n_warps,         plan.inbox,           plan.brief,      plan.tops + at,
                          plan.sums + at * a.d, plan.counters + where};
    decode_block<T, D, STAGES, TWO>(a, place, shared, plan.near);
}

/* Clusters of `size` blocks, or blocks by themselves. */
static launch_plan plan_blocks(dim3 grid, int n_warps, int size, int bytes, int most_bytes) {
    launch_plan p = of_step({grid, (unsigned)n_warps * 32, (size_t)bytes, most_bytes});
    p.cluster = size > 1 ? size : 0;
    return p;
}

/* How many wide clusters the card can place, which it is asked once; none before sm_90. */
template <typename T, int D, int STAGES, bool TWO, typename JOB>
static int count_wide(const sac_stream *s, int n_warps) {
    static std::atomic<int> known[64]; /* and 1 */
    const sac_device *d = s->device;
    auto kernel = attention_decode_kernel<T, D, STAGES, TWO, JOB>;
    int n = 0, bytes = decode_bytes<D, STAGES>(n_warps) + decode_inbox_bytes(D, CLUSTER_WIDE);
    if (d->compute < 90 || d->index >= 64) return 0;
    if (known[d->index].load()) return known[d->index].load() - 1;
    cudaLaunchAttribute attributes[MOST_ATTRIBUTES] = {};
    cudaLaunchConfig_t c =
        launch_config(s, plan_blocks(CLUSTER_WIDE, n_warps, CLUSTER_WIDE, bytes, bytes), attributes);
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) != cudaSuccess ||
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess ||
        cudaOccupancyMaxActiveClusters(&n, kernel, &c) != cudaSuccess)
        n = 0;
    cudaGetLastError(); /* a card may not have them */
    known[d->index].store(n + 1);
    return n;
}

/* Problems so few that each may be one cluster. */
static bool may_cluster(const sac_stream *s, int64_t together) {
    return s->device->compute >= 90 && together * 8 <= s->device->n_processors / 2;
}

/* One wave of blocks, each with a tile of keys for every warp at least. Few splits are one cluster, wide
 * where the card can place as many, which needs no scratch and nobody who comes last. (Clusters of four for
 * many splits were tried: they leave processors empty.) */
static bool plan_decode(const sac_stream *s, const sac_attention_args *a, const attention_job &j,
                        int64_t tiles, int n_warps, int n_stages, int n_wide, decode_plan *p, int *cluster) {
    int64_t n_keys = a->n_kv, together = (int64_t)j.n_problems * tiles, processors = s->device->n_processors;
    if (!a->lists && a->window) n_keys = min_of(n_keys, a->window + a->n_q);
    int64_t wanted = ceil_div(n_keys, (int64_t)KEYS * n_warps),
            splits = min_of(processors / together, wanted);
    splits = max_of(1, min_of(splits, MAX_SPLITS));
    *cluster = 1;
    int most = together <= n_wide ? CLUSTER_WIDE : CLUSTER_MAX, turns = min_of(n_stages, 2);
    if (may_cluster(s, together) && wanted <= max_of(CLUSTER_WIDE, most * turns)) {
        while (*cluster * 2 <= min_of(splits, most)) *cluster *= 2;
        splits = *cluster;
    }
    size_t n_bytes, parts = (size_t)(*cluster > 1 ? 1 : splits),
                    part_bytes = (size_t)together * ROWS * (size_t)(j.d + 2) * 4;
    float *rest = (float *)scratch_rest(s, &n_bytes);
    if (parts > 1 &&
        (part_bytes * parts > n_bytes || (size_t)together * sizeof(unsigned) > SCRATCH_COUNTER_BYTES))
        return false;
    bool brief = n_keys * j.d * 4 * a->kv.n_heads <= BRIEF_BYTES;
    *p = decode_plan{};
    p->n_splits = (int)splits, p->n_warps = n_warps, p->brief = brief;
    p->tops = (float2 *)rest, p->sums = rest + (size_t)together * parts * ROWS * 2;
    p->counters = scratch_counters(s);
    return true;
}

template <typename T, int D, int STAGES, bool TWO = false, typename JOB>
static sac_status run(const sac_stream *s, const sac_attention_args *a, const JOB &j,
                      const decode_near &near = decode_near{}) {
    int64_t tiles = ceil_div((int64_t)j.n_q * j.group, ROWS);
    int n_warps = decode_warps<D, STAGES>(s->device), size;
    decode_plan p;
    if (!n_warps) return SAC_DEVICE;
    int bytes = decode_bytes<D, STAGES>(n_warps);
    auto kernel = attention_decode_kernel<T, D, STAGES, TWO, JOB>;
    int n_wide = count_wide<T, D, STAGES, TWO, JOB>(s, n_warps);
    if (!plan_decode(s, a, j, tiles, n_warps, STAGES, n_wide, &p, &size)) return SAC_UNSUPPORTED;
    p.near = near, p.inbox = bytes;
    int most = bytes; /* the limit is the kernel's, which other threads launch with clusters of other sizes */
    if (s->device->compute >= 90) most += decode_inbox_bytes(D, CLUSTER_WIDE);
    if (size > 1) bytes += decode_inbox_bytes(D, size);
    dim3 grid((unsigned)p.n_splits, (unsigned)tiles, (unsigned)j.n_problems);
    return launch(s, plan_blocks(grid, n_warps, size, bytes, most), kernel, j, p);
}

/* Heads of more than 128 channels, and capped scores. */
sac_status run_wide(const sac_stream *s, const sac_attention_args *a);
sac_status run_capped(const sac_stream *s, const sac_attention_args *a);

} // namespace sac::attention::decode

#endif
