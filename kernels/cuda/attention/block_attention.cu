/* block_attention.cu - attention over lists of whole blocks of 128 keys on Hopper: the kernel for dense attention
 * (attention_hopper.cuh), whose tiles of 128 queries of a head read the blocks of their own list by bulk copies,
 * the last one first. Lists end where a number is negative, so a kernel before it counts them, and their pairs. */
#include "attention_hopper.cuh"
#include "tensor_map.cuh"

namespace sac::attention::hopper {

enum { COUNT_WARPS = 8 };

/* Pairs of queries at rows [begin, end) and those of the keys at rows [row, to) that are no later. */
__device__ __forceinline__ int64_t pairs_of(int64_t row, int64_t to, int64_t begin, int64_t end) {
    to = min(to, end);
    const int64_t seen_by_all = max(min(to, begin + 1) - row, (int64_t)0), from = max(row, begin + 1),
                  rest = max(to - from, (int64_t)0);
    return seen_by_all * (end - begin) + rest * (end - from) - rest * (rest - 1) / 2;
}

/* A list a warp. */
static __global__ void __launch_bounds__(COUNT_WARPS * 32) count_kernel(sac_block_attention_args a, int n_lists, int32_t *counts) {
    const int list = blockIdx.x * COUNT_WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (list >= n_lists) return;
    const int32_t *columns = a.columns + list * a.stride;
    const int64_t begin = a.first + list / a.n_heads * a.block, end = min(begin + a.block, a.first + a.q.rows);
    int n = 0;
    int64_t pairs = 0;
    for (int64_t i = lane; i < a.stride; i += 32) {
        const int column = columns[i];
        if (column < 0) break; /* what follows is negative too */
        n++;
        pairs += pairs_of(column * a.block, (column + (int64_t)1) * a.block, begin, end);
    }
#pragma unroll
    for (int x = 16; x > 0; x /= 2) {
        n += __shfl_xor_sync(0xffffffffu, n, x);
        pairs += __shfl_xor_sync(0xffffffffu, pairs, x);
    }
    if (lane > 0) return;
    counts[list] = n;
    if (a.pairs) a.pairs[list] = pairs;
}

static bool fits(const sac_stream *s, const sac_block_attention_args *a) {
    const sac_kv_view *kv = &a->kv;
    const int64_t most = 1 << 30;
    return tuning_of(s->device).has_wgmma && a->block == QUERIES && kv->head_dim == D && !kv->pages &&
           is_half(kv->dtype) && a->q.dtype == kv->dtype && a->o.dtype == kv->dtype &&
           is_aligned(kv->k, kv->row_stride) && is_aligned(kv->v, kv->row_stride) &&
           kv->head_stride % 8 == 0 && mat_aligned(a->q) && mat_aligned(a->o) && a->q.rows >= 1 &&
           a->scale > 0 && a->first >= 0 && a->first + a->q.rows <= most;
}

template <typename T>
static sac_status run_blocks(const sac_stream *s, const sac_block_attention_args *a, hopper_job j) {
    const sac_kv_view *kv = &a->kv;
    encode_map encode = find_encode_map();
    if (!encode ||
        !make_map(encode, &j.q, a->q.dtype, a->q.data, D, j.n_q, a->q.stride, j.n_heads, D, 1, 0, QUERIES) ||
        !make_map(encode, &j.k, kv->dtype, kv->k, D, j.n_kv, kv->row_stride, kv->n_heads, kv->head_stride, 1,
                  0, QUERIES) ||
        !make_map(encode, &j.v, kv->dtype, kv->v, D, j.n_kv, kv->row_stride, kv->n_heads, kv->head_stride, 1,
                  0, QUERIES))
        return SAC_UNSUPPORTED;
    auto kernel = hopper_kernel<T, QUERIES, true>;
    const int n_bytes = (int)sizeof(hopper_shared<QUERIES>) + 1024;
    bool is_built;
    SAC_TRY(is_built_for_hopper(kernel, &is_built));
    if (!is_built) return SAC_UNSUPPORTED;
    SAC_TRY(launch(s, {(unsigned)ceil_div(j.n_tiles, COUNT_WARPS), COUNT_WARPS * 32}, count_kernel, *a, j.n_tiles,
                   (int32_t *)j.counts));
    return launch(s,
                  {(unsigned)min_of(s->device->n_processors, j.n_tiles), THREADS, (size_t)n_bytes, n_bytes},
                  kernel, j);
}

extern "C" sac_status sac_cuda_block_attention(const sac_stream *s, const sac_block_attention_args *a) {
    const sac_kv_view *kv = &a->kv;
    size_t n_bytes;
    int32_t *counts = (int32_t *)scratch_rest(s, &n_bytes);
    if (!fits(s, a)) return SAC_UNSUPPORTED;
    hopper_job j = {};
    j.o = a->o.data, j.o_stride = a->o.stride;
    j.n_q = (int)a->q.rows, j.first = (int)a->first, j.causal = true, j.n_kv = j.first + j.n_q;
    j.n_heads = a->n_heads, j.group = a->n_heads / kv->n_heads;
    j.n_blocks = (int)ceil_div(a->q.rows, QUERIES);
    const int64_t n_tiles = (int64_t)j.n_blocks * a->n_heads, head_bytes = (int64_t)j.n_kv * D * 4;
    if (n_tiles > INT32_MAX / 2 || n_tiles * sizeof *counts > n_bytes) return SAC_UNSUPPORTED;
    j.n_tiles = (int)n_tiles;
    j.section = (int)min_of(a->n_heads, max_of(1, HOPPER_L2_BYTES / head_bytes) * j.group);
    j.scale_log2 = a->scale * LOG2_E;
    j.drawn = scratch_counters(s), j.through = j.drawn + 1;
    j.columns = a->columns, j.counts = counts, j.column_stride = a->stride;
    return kv->dtype == SAC_DTYPE_F16 ? run_blocks<half>(s, a, j) : run_blocks<bf16>(s, a, j);
}

} // namespace sac::attention::hopper
