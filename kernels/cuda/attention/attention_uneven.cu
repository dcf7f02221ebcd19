/* attention_uneven.cu - few queries, lists of keys whose lengths only the device knows: the blocks of
 * attention_decode.cuh, of which each problem gets as many as its share of all tiles of keys asks for. Every
 * block works that out for itself; those that nobody needs end at once. */
#include "attention_decode.cuh"
#include "context.cuh"

namespace sac::attention::decode {

enum { MAX_PROBLEMS = 256 };

typedef struct uneven_plan {
    int n_warps;
    float2 *tops; /* [tile of rows][block][ROWS] */
    float *sums;  /* [tile of rows][block][ROWS][d] */
    unsigned *counters;
} uneven_plan;

template <typename T, int D, int STAGES>
static __global__ void __launch_bounds__(256, 1) attention_uneven_kernel(attention_job a, uneven_plan plan) {
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ int n_splits[MAX_PROBLEMS], n_tiles[MAX_PROBLEMS];
    int block = blockIdx.x, tile = blockIdx.y, n_blocks = gridDim.x;
    start_next();
    wait_for_last(); /* lists are new */
    for (int i = threadIdx.x; i < a.n_problems; i += blockDim.x) {
        attention_keys keys = keys_of(a, i);
        n_tiles[i] = (int)((keys.end - keys.begin + KEYS - 1) / KEYS);
    }
    __syncthreads();
    int64_t all = 0, spare = n_blocks - a.n_problems;
    for (int i = 0; i < a.n_problems; i++) all += n_tiles[i];
    for (int i = threadIdx.x; i < a.n_problems; i += blockDim.x) {
        int wanted = (n_tiles[i] + plan.n_warps - 1) / plan.n_warps; /* a tile for every warp at least */
        int share = 1 + (int)(all ? spare * n_tiles[i] / all : 0);
        n_splits[i] = max(1, min(min(share, wanted), (int)MAX_SPLITS));
    }
    __syncthreads();
    int problem = 0, first = 0;
    while (problem < a.n_problems && block >= first + n_splits[problem]) first += n_splits[problem++];
    if (problem == a.n_problems) return;
    int64_t at = ((int64_t)tile * n_blocks + first) * ROWS;
    decode_place place = {
        problem, tile,  block - first,  n_splits[problem],    plan.n_warps,
        0,       false, plan.tops + at, plan.sums + at * a.d, plan.counters + tile * a.n_problems + problem};
    decode_block<T, D, STAGES>(a, place, shared);
}

template <typename T, int D, int STAGES> static sac_status run(const sac_stream *s, const attention_job &j) {
    int64_t tiles = ceil_div((int64_t)j.n_q * j.group, ROWS),
            blocks = max_of(j.n_problems, s->device->n_processors / tiles);
    size_t n_bytes;
    float *rest = (float *)scratch_rest(s, &n_bytes);
    uneven_plan p = {decode_warps<D, STAGES>(s->device), (float2 *)rest, rest + tiles * blocks * ROWS * 2,
                     scratch_counters(s)};
    if (!p.n_warps) return SAC_DEVICE;
    if ((size_t)(tiles * blocks * ROWS) * (size_t)(j.d + 2) * sizeof(float) > n_bytes || tiles > 65535 ||
        (size_t)(tiles * j.n_problems) * sizeof(unsigned) > SCRATCH_COUNTER_BYTES)
        return SAC_UNSUPPORTED;
    int bytes = decode_bytes<D, STAGES>(p.n_warps);
    auto kernel = attention_uneven_kernel<T, D, STAGES>;
    dim3 grid((unsigned)blocks, (unsigned)tiles);
    return launch(s, of_step({grid, (unsigned)p.n_warps * 32, (size_t)bytes, bytes}), kernel, j, p);
}

template <typename T> static sac_status launch_any(const sac_stream *s, const attention_job &j) {
    if (j.d <= 64) return run<T, 64, 4>(s, j);
    if (j.d <= 80) return run<T, 80, 3>(s, j);
    if (j.d <= 96) return run<T, 96, 3>(s, j);
    return run<T, 128, 3>(s, j);
}

extern "C" sac_status sac_cuda_attention_uneven(const sac_stream *s, const sac_attention_args *a) {
    if (a->segment_start || a->softcap > 0 || a->kv.head_dim > 128 || !attention_is_half(a) || a->n_batch != 1 || !a->lists || a->list_block || a->n_q > 64 ||
        !attention_fits_int(a))
        return SAC_UNSUPPORTED;
    attention_job j = attention_prepare(a);
    if (a->n_q == 0) return SAC_OK;
    if (j.n_problems > MAX_PROBLEMS) return SAC_UNSUPPORTED;
    return a->kv.dtype == SAC_DTYPE_F16 ? launch_any<half>(s, j) : launch_any<bf16>(s, j);
}

} // namespace sac::attention::decode
