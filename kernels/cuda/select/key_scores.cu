/* key_scores.cu - scores of one query against many keys, each key read once for its group of heads.
 *
 * The query is f32 and its products are wanted that exactly, so it is cut into three halves (key_scores.cuh):
 * three tensor-core products instead of one, which still cost less than reading the keys. */
#include "key_scores.cuh"
#include "turn.cuh"

namespace sac::select {

typedef struct scores_job {
    float *scores;
    const float *q;
    const void *k;
    int64_t stride, first, n, k_row, k_head;
    const int32_t *rows;
    const int64_t *start;
    int n_heads, n_problems, n_lists, group, heads_per_kv, d;
    float scale;
    const float *cos_sin; /* of keys that are turned back, or NULL */
    int rot_dim;
    float factor;
    int together; /* key heads whose warps share a block: keys of one row are turned by the same angles, which
                     all but the first find in the nearest cache */
    const int32_t *skip;
} scores_job;

enum { KEYS = 16, ROWS = 16, WARPS = 8, STAGES = 4 };

/* The angles of a tile's keys: lane has those of two neighbouring pairs of every key. `row` is that of key
 * lane % KEYS. */
__device__ __forceinline__ void take_angles(const scores_job &a, float4 cs[KEYS], int row, int lane) {
    const float *angles = a.cos_sin + 4 * lane;
#pragma unroll
    for (int j = 0; j < KEYS; j++) {
        int r = max(__shfl_sync(0xffffffffu, row, j), 0);
        if (4 * lane < a.rot_dim) cs[j] = __ldg((const float4 *)(angles + (int64_t)r * a.rot_dim));
    }
}

/* Asks for the angles of a tile's keys, which lie side by side, before they are taken. */
__device__ __forceinline__ void fetch_angles(const scores_job &a, int row, int lane) {
    if (lane < KEYS && row >= 0) fetch_soon(a.cos_sin + (int64_t)row * a.rot_dim, a.rot_dim * 4);
}

/* Turns the keys of a tile back where they lie in shared memory. */
template <typename T, int D>
__device__ __forceinline__ void turn_tile(const scores_job &a, uint8_t *tile, const float4 cs[KEYS],
                                          int lane) {
    int half = a.rot_dim / 2;
    float f = 1 / a.factor;
    if (2 * lane >= half) return;
#pragma unroll
    for (int j = 0; j < KEYS; j++) {
        uint32_t *u = (uint32_t *)(tile + j * pitch<D>()) + lane, *v = u + half / 2;
        turn_back_two<T>(*u, *v, cs[j], f);
    }
}

template <typename T, int D, bool TURNS>
static __global__ void __launch_bounds__(WARPS * 32, 1) key_scores_kernel(scores_job a) {
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ float units[WARPS][ROWS];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    int problem = blockIdx.y * a.together + warp % a.together;
    float *unit = units[warp];
    start_next();
    wait_for_last();
    if (is_skipped(a.skip)) return;
    int row0 = blockIdx.z * ROWS, kv_head = problem * a.group / a.heads_per_kv;
    int list = problem / (a.n_problems / a.n_lists);
    const int32_t *rows = a.rows ? a.rows + a.start[list] : NULL;
    int n = (int)(a.rows ? a.start[list + 1] - a.start[list] : a.n), n_tiles = (n + KEYS - 1) / KEYS;
    const T *k = (const T *)a.k + kv_head * a.k_head;
    uint8_t *ring = shared + warp * STAGES * KEYS * pitch<D>();
    for (int i = lane; a.d < D && i < STAGES * KEYS * pitch<D>() / 16; i += 32)
        ((uint4 *)ring)[i] = make_uint4(0, 0, 0, 0);
#pragma unroll 8
    for (int r = 0; r < ROWS; r++) {
        bool valid = row0 + r < a.group;
        float u = valid ? unit_of<T>(a.q + (int64_t)(problem * a.group + row0 + r) * a.d, a.d, lane) : 1;
        if (lane == 0) unit[r] = u;
    }
    __syncwarp();
    uint32_t q[3][D / 16][4];
#pragma unroll
    for (int s = 0; s < D / 16; s++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int r = g + i % 2 * 8, c = s * 16 + i / 2 * 8 + 2 * t;
            bool valid = row0 + r < a.group && c < a.d;
            const float *from = a.q + (int64_t)(problem * a.group + row0 + r) * a.d + c;
            float f = 1 / unit[r];
            cut<T>(valid ? from[0] * f : 0, valid ? from[1] * f : 0, q[0][s][i], q[1][s][i], q[2][s][i]);
        }
    float scale[2] = {a.scale * unit[g], a.scale * unit[g + 8]};
    int each = WARPS / a.together, step = gridDim.x * each, at = blockIdx.x * each + warp / a.together;
    auto row_of = [&](int tile) { /* that of key lane % KEYS, -1 for none */
                                  int j = tile * KEYS + lane % KEYS;
                                  return tile < n_tiles && j < n ? (rows ? rows[j] : (int)a.first + j) : -1;
    };
    auto fetch_chunks = [&](int tile, int stage, int n_chunks) {
        int row = row_of(tile);
        if (TURNS && warp % a.together == 0) fetch_angles(a, row, lane);
#pragma unroll 4
        for (int first = 0; first < KEYS * n_chunks; first += 32) {
            int i = first + lane, key = i / n_chunks, c = i % n_chunks;
            int r = __shfl_sync(0xffffffffu, row, key % KEYS);
            if (i < KEYS * n_chunks)
                copy_async(ring + (stage * KEYS + key) * pitch<D>() + c * 16, k + max(r, 0) * a.k_row + c * 8,
                           r >= 0);
        }
    };
    auto fetch = [&](int tile, int stage) {
        if (tile < n_tiles && a.d == D) /* no division at run time */
            fetch_chunks(tile, stage, D / 8);
        else if (tile < n_tiles)
            fetch_chunks(tile, stage, a.d / 8);
        copy_commit();
    };
    for (int i = 0; i < STAGES - 1; i++) fetch(at + i * step, i);
    float4 angles[TURNS ? KEYS : 1];
    if constexpr (TURNS) take_angles(a, angles, row_of(at), lane);
    for (int stage = 0; at < n_tiles; at += step, stage = (stage + 1) % STAGES) {
        fetch(at + (STAGES - 1) * step, (stage + STAGES - 1) % STAGES);
        copy_wait<STAGES - 1>();
        __syncwarp();
        if constexpr (TURNS) {
            turn_tile<T, D>(a, ring + stage * KEYS * pitch<D>(), angles, lane);
            __syncwarp();
            take_angles(a, angles, row_of(at + step), lane);
        }
        float s[2][4] = {{0}},
              parts[3][2][4] = {{{0}}}; /* a product waits for the one before it in its chain */
        const uint8_t *from =
            ring + stage * KEYS * pitch<D>() + (lane / 16 * 8 + lane % 8) * pitch<D>() + lane / 8 % 2 * 16;
#pragma unroll
        for (int i = 0; i < D / 16; i++) {
            uint32_t b[4];
            load_matrices(b, from + i * 32);
#pragma unroll
            for (int p = 0; p < 3; p++) {
                mma<T>(parts[p][0], q[p][i][0], q[p][i][1], q[p][i][2], q[p][i][3], b[0], b[1]);
                mma<T>(parts[p][1], q[p][i][0], q[p][i][1], q[p][i][2], q[p][i][3], b[2], b[3]);
            }
        }
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int i = 0; i < 4; i++) s[m][i] = parts[2][m][i] + parts[1][m][i] + parts[0][m][i];
        __syncwarp();
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int r = g + i / 2 * 8, j = at * KEYS + m * 8 + 2 * t + i % 2;
                if (row0 + r < a.group && j < n)
                    a.scores[(problem * a.group + row0 + r) * a.stride + j] = s[m][i] * scale[i / 2];
            }
    }
    copy_wait<0>();
}

/* A key a warp: f32 keys, any alignment, keys that are turned back first. WIDE: keys that shared memory has no
 * room for, which are read again for every head and not turned. */
template <bool WIDE>
static __global__ void key_scores_any_kernel(scores_job a, sac_dtype type, sac_rotation back, bool turn) {
    extern __shared__ float keys[];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, problem = blockIdx.y;
    int list = problem / (a.n_problems / a.n_lists);
    const int32_t *rows = a.rows ? a.rows + a.start[list] : NULL;
    int64_t n = a.rows ? a.start[list + 1] - a.start[list] : a.n;
    int64_t head_at = (int64_t)(problem * a.group / a.heads_per_kv) * a.k_head;
    float *key = keys + warp * a.d;
    if (is_skipped(a.skip)) return;
    for (int64_t j = (int64_t)blockIdx.x * WARPS + warp; j < n; j += (int64_t)gridDim.x * WARPS) {
        int64_t row = rows ? rows[j] : a.first + j, at = row * a.k_row + head_at;
        __syncwarp();
        for (int c = lane; c < a.d && !WIDE; c += 32)
            key[c] = turn ? turned_back(type, a.k, at, c, back, row) : load_any(type, a.k, at + c);
        __syncwarp();
        for (int h = 0; h < a.group; h++) {
            const float *q = a.q + (int64_t)(problem * a.group + h) * a.d;
            float sum = 0;
            for (int c = lane; c < a.d; c += 32) sum += q[c] * (WIDE ? load_any(type, a.k, at + c) : key[c]);
            sum = warp_sum(sum);
            if (lane == 0) a.scores[(problem * a.group + h) * a.stride + j] = sum * a.scale;
        }
    }
}

template <typename T, int D> static sac_status run(const sac_stream *s, const scores_job &j, int64_t n_keys) {
    int bytes = WARPS * STAGES * KEYS * pitch<D>();
    auto kernel = j.cos_sin ? key_scores_kernel<T, D, true> : key_scores_kernel<T, D, false>;
    if (bytes > block_shared_bytes(s->device)) return SAC_UNSUPPORTED;
    int64_t tiles = ceil_div(n_keys, KEYS * WARPS / j.together), rows = ceil_div(j.group, ROWS);
    int64_t problems = j.n_problems / j.together;
    int64_t blocks = max_of(1, min_of(tiles, s->device->n_processors / (problems * rows)));
    dim3 grid((unsigned)blocks, (unsigned)problems, (unsigned)rows);
    return launch(s, of_step({grid, WARPS * 32, (size_t)bytes, bytes}), kernel, j);
}

static sac_status one_query(const sac_stream *s, const sac_key_scores_args *a) {
    const sac_kv_view *kv = &a->kv;
    int64_t n_keys = a->lists ? a->stride : a->n;
    if (!is_float(kv->dtype)) return SAC_UNSUPPORTED;
    if (n_keys == 0) return SAC_OK;
    bool by_head = a->lists && a->lists->n_lists == a->n_heads;
    scores_job j;
    j.scores = a->scores, j.q = a->q, j.k = kv->k, j.stride = a->stride, j.first = a->first, j.n = a->n;
    j.k_row = kv->row_stride, j.k_head = kv->head_stride, j.n_heads = a->n_heads, j.d = kv->head_dim;
    j.rows = a->lists ? a->lists->rows : NULL, j.start = a->lists ? a->lists->start : NULL;
    j.n_lists = a->lists ? a->lists->n_lists : 1;
    j.heads_per_kv = a->n_heads / kv->n_heads, j.group = by_head ? 1 : j.heads_per_kv;
    j.n_problems = by_head ? a->n_heads : kv->n_heads, j.scale = a->scale, j.skip = a->skip;
    const sac_rotation *back = a->back;
    bool turns = back && !back->interleaved && back->rot_dim % 4 == 0 && (uintptr_t)back->cos_sin % 16 == 0;
    j.cos_sin = turns ? back->cos_sin : NULL;
    j.rot_dim = back ? back->rot_dim : 0, j.factor = back ? back->factor : 1;
    j.together = turns && WARPS % j.n_problems == 0 ? j.n_problems : 1;
    bool fast = is_half(kv->dtype) && (!back || turns) && keys_aligned(kv) && kv->head_dim <= 128 &&
                n_keys <= 1 << 30 && kv->n_rows <= 1 << 30;
#define LAUNCH(D) (kv->dtype == SAC_DTYPE_F16 ? run<half, D>(s, j, n_keys) : run<bf16, D>(s, j, n_keys))
    if (fast) {
        sac_status st = kv->head_dim <= 64 ? LAUNCH(64) : kv->head_dim <= 96 ? LAUNCH(96) : LAUNCH(128);
        if (st != SAC_UNSUPPORTED) return st; /* a card with little shared memory */
        j.together = 1;
    }
    size_t bytes = (size_t)WARPS * (size_t)kv->head_dim * sizeof(float);
    const bool wide = bytes > 48 << 10;
    if (wide && back) return SAC_UNSUPPORTED;
    auto kernel = wide ? key_scores_any_kernel<true> : key_scores_any_kernel<false>;
    dim3 grid((unsigned)min_of(ceil_div(n_keys, WARPS), s->device->n_processors * 8), (unsigned)j.n_problems);
    return launch(s, {grid, WARPS * 32, wide ? 0 : bytes}, kernel, j, kv->dtype,
                  a->back ? *a->back : sac_rotation(), a->back != NULL);
}

/* -infinity from each query's own number of scores on. */
static __global__ void end_scores_kernel(float *scores, int64_t stride, int64_t n, int64_t n_more,
                                         int64_t n_last, int n_heads, const int32_t *skip) {
    int64_t row = blockIdx.y, end = n + row / n_heads * n_more;
    if (is_skipped(skip)) return;
    for (int64_t j = end + (int64_t)blockIdx.x * blockDim.x + threadIdx.x; j < n_last;
         j += (int64_t)gridDim.x * blockDim.x)
        scores[row * stride + j] = -CUDART_INF_F;
}

static sac_status several_queries(const sac_stream *s, const sac_key_scores_args *a) {
    sac_status st = key_scores_many(s, a);
    if (st != SAC_UNSUPPORTED) return st; /* else one after the other */
    int64_t n_more = (a->n_queries - 1) * a->n_more, rows = (int64_t)a->n_queries * a->n_heads;
    if (rows > 65535) return SAC_UNSUPPORTED;
    for (int i = 0; i < a->n_queries; i++) {
        sac_key_scores_args b = *a;
        b.n = a->n + i * a->n_more;
        b.q = a->q + (int64_t)i * a->n_heads * a->kv.head_dim;
        b.scores = a->scores + (int64_t)i * a->n_heads * a->stride;
        SAC_TRY(one_query(s, &b));
    }
    if (!n_more) return SAC_OK;
    dim3 grid((unsigned)min_of(ceil_div(n_more, 256), 64), (unsigned)rows);
    return launch(s, {grid, 256}, end_scores_kernel, a->scores, a->stride, a->n, a->n_more, a->n + n_more,
                  a->n_heads, a->skip);
}

extern "C" sac_status sac_cuda_key_scores(const sac_stream *s, const sac_key_scores_args *a) {
    const bool several = a->n_queries > 1;
    sac_status st = several ? key_scores_hopper(s, a) : SAC_UNSUPPORTED;
    if (st != SAC_UNSUPPORTED) return st;
    SAC_TRY(several ? several_queries(s, a) : one_query(s, a));
    if (!a->lse) return SAC_OK;
    sac_softmax_args sums = {}; /* in a pass of their own */
    sums.scores = a->scores, sums.stride = a->stride, sums.lse = a->lse, sums.skip = a->skip;
    sums.n_rows = (several ? a->n_queries : 1) * a->n_heads;
    sums.n = several ? a->n + (a->n_queries - 1) * a->n_more : a->n;
    return sac_cuda_softmax(s, &sums);
}

} // namespace sac::select
