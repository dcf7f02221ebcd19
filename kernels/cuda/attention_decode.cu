/* attention_decode.cu - few queries of one sequence against its keys, in one view or in two: a grid of
 * splits, tiles of rows and problems over the blocks of attention_decode.cuh. */
#include "attention_decode.cuh"
#include "context.cuh"

#include <atomic>

typedef struct decode_plan {
    int n_splits, n_warps, inbox;
    bool brief;   /* few keys: waiting, not reading, is what they take */
    float *sums;  /* [problem * tiles + tile][split][ROWS][d] */
    float2 *tops; /* [problem * tiles + tile][split][ROWS]: maximum and sum of weights */
    unsigned *counters;
    decode_near near; /* of TWO views */
} decode_plan;

template <typename T, int D, int STAGES, bool TWO>
static __global__ void __launch_bounds__(256, 1) attention_decode_kernel(attention_job a, decode_plan plan) {
    extern __shared__ __align__(128) uint8_t shared[];
    int64_t where = (int64_t)blockIdx.z * gridDim.y + blockIdx.y,
            at = where * plan.n_splits * ROWS;
    decode_place place = {(int)blockIdx.z,      (int)blockIdx.y,      (int)blockIdx.x, plan.n_splits,
                          plan.n_warps,         plan.inbox,           plan.brief,      plan.tops + at,
                          plan.sums + at * a.d, plan.counters + where};
    decode_block<T, D, STAGES, TWO>(a, place, shared, plan.near);
}

enum { LARGE_CLUSTER = 16 };

/* How many large clusters the card can place, which it is asked once; none before sm_90. */
template <typename T, int D, int STAGES, bool TWO> static int count_large(const sac_device *d, int n_warps) {
    static std::atomic<int> known[64]; /* and 1 */
    auto kernel = attention_decode_kernel<T, D, STAGES, TWO>;
    int bytes = decode_bytes<D, STAGES>(n_warps) + decode_inbox_bytes(D, LARGE_CLUSTER);
    if (d->compute < 90 || d->index >= 64) return 0;
    if (known[d->index].load()) return known[d->index].load() - 1;
    cudaLaunchConfig_t c = {};
    cudaLaunchAttribute size = {};
    size.id = cudaLaunchAttributeClusterDimension;
    size.val.clusterDim.x = LARGE_CLUSTER;
    size.val.clusterDim.y = size.val.clusterDim.z = 1;
    c.attrs = &size, c.numAttrs = 1;
    c.gridDim = dim3(LARGE_CLUSTER), c.blockDim = dim3((unsigned)n_warps * 32);
    c.dynamicSmemBytes = (size_t)bytes;
    int n = 0;
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) != cudaSuccess ||
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess ||
        cudaOccupancyMaxActiveClusters(&n, kernel, &c) != cudaSuccess)
        n = 0;
    cudaGetLastError(); /* a card may not have them */
    known[d->index].store(n + 1);
    return n;
}

/* One wave of blocks, each with a tile of keys for every warp at least. Few splits are one cluster, large
 * where the card can place as many, which needs no scratch and nobody who comes last. (Clusters of four for
 * many splits were tried: they leave processors empty.) */
static bool plan_decode(const sac_stream *s, const sac_attention_args *a, const attention_job &j,
                        int64_t tiles, int n_warps, int n_large, decode_plan *p, int *cluster) {
    int64_t n_keys = a->n_kv, together = (int64_t)j.n_problems * tiles, processors = s->device->n_processors;
    if (!a->lists && a->window) n_keys = min_of(n_keys, a->window + a->n_q);
    int64_t wanted = ceil_div(n_keys, (int64_t)KEYS * n_warps),
            splits = min_of(processors / together, wanted);
    splits = max_of(1, min_of(splits, MAX_SPLITS));
    *cluster = 1;
    if (s->device->compute >= 90 && wanted <= LARGE_CLUSTER && together * 8 <= processors / 2) {
        while (*cluster * 2 <= min_of(splits, together <= n_large ? LARGE_CLUSTER : 8)) *cluster *= 2;
        splits = *cluster;
    }
    size_t n_bytes, parts = (size_t)(*cluster > 1 ? 1 : splits),
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
    int n_warps = decode_warps<D, STAGES>(s->device), size;
    decode_plan p;
    if (!n_warps) return SAC_DEVICE;
    int bytes = decode_bytes<D, STAGES>(n_warps);
    auto kernel = attention_decode_kernel<T, D, STAGES, TWO>;
    int n_large = count_large<T, D, STAGES, TWO>(s->device, n_warps);
    if (!plan_decode(s, a, j, tiles, n_warps, n_large, &p, &size)) return SAC_UNSUPPORTED;
    p.near = near, p.inbox = bytes;
    int most = bytes; /* the limit is the kernel's, which other threads launch with clusters of other sizes */
    if (s->device->compute >= 90) most += decode_inbox_bytes(D, LARGE_CLUSTER);
    if (size > 1) bytes += decode_inbox_bytes(D, size);
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most) != cudaSuccess)
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
    /* few keys: a warp has two tiles at most, and the kernels beside it the room of more, which they need if
     * memory is to stay split as it is */
    int64_t tiles = ceil_div((int64_t)j.n_q * j.group, ROWS) * j.n_problems;
    int64_t at_once = min_of(MAX_SPLITS, max_of(1, s->device->n_processors / tiles)) * 8 * KEYS;
    if (a->n_kv <= max_of(2048, 2 * at_once) && s->device->compute >= 90) return launch<T, 128, 1>(s, a, j);
    return launch<T, 128, 3>(s, a, j);
}

extern "C" sac_status sac_cuda_attention_decode(const sac_stream *s, const sac_attention_args *a) {
    if (!attention_is_half(a) || a->n_batch != 1 || a->n_q > 4096 || !attention_fits_int(a) ||
        (a->lists && a->list_block))
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
    return j.d == 64 ? launch<T, 64, 4, true>(s, a, j, near) : launch<T, 128, 1, true>(s, a, j, near);
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
