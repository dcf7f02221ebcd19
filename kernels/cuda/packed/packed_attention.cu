/* packed_attention.cu - one query against keys and values in 2, 4 or 8 bits, unpacked on the way; and, for a
 * step, against a plain tail. Any layout; packed_step.cu does the common ones faster.
 *
 * Rows go in tiles of one part. A block has a key-value head, up to eight of its query heads and a run of
 * tiles: it unpacks a tile's keys to shared memory, scores them, keeps a running maximum, unpacks the values
 * and adds them up, a thread a channel. Runs leave their sums in scratch, and a second kernel joins them in
 * order. */
#include "context.cuh"
#include "packed.cuh"
#include "packed_join.cuh"

namespace sac::packed {

enum { TILE = 32, THREADS = 256, HEADS = 8, MAX_D = 256, MAX_SPLITS = 128 };

typedef struct packed_job {
    packed_parts parts; /* of one launch */
    sac_kv_view tail;   /* n_rows 0: none */
    float *scores, *partial;
    const void *q;
    const float *min_score, *lse_parts; /* lse_parts: where weights stand beside the scores of a tail */
    int64_t stride, n_tiles, first; /* rows of the launches before */
    int n_heads, group, d, n_splits, n_subgroups;
    float scale;
    sac_dtype dtype;            /* of q */
    bool given, weights, mixes; /* the parts' scores are given; they are weights, exp(score - lse); the mix is
                                   wanted */
} packed_job;

/* Tile `index` of all parts. */
typedef struct packed_tile {
    int part, n;
    int64_t row, at; /* within the part; within all rows */
} packed_tile;

__device__ __forceinline__ packed_tile tile_at(const packed_job &a, int64_t index) {
    packed_tile t = {0, 0, 0, a.first};
    while (t.part < a.parts.n) {
        int64_t n = (a.parts.rows[t.part].n + TILE - 1) / TILE;
        if (index < n) break;
        index -= n;
        t.at += a.parts.rows[t.part++].n;
    }
    t.row = index * TILE;
    t.at += t.row;
    t.n = (int)min((int64_t)TILE, (t.part < a.parts.n ? a.parts.rows[t.part].n : a.tail.n_rows) - t.row);
    return t;
}

/* Number c of a tile's row; the part after the last is the tail. */
__device__ __forceinline__ float key_at(const packed_job &a, const packed_tile &t, int head, int row, int c) {
    if (t.part < a.parts.n) return packed_key(a.parts.rows[t.part], head, t.row + row, c);
    return load_any(a.tail.dtype, a.tail.k,
                    (t.row + row) * a.tail.row_stride + head * a.tail.head_stride + c);
}
__device__ __forceinline__ void values_at(const packed_job &a, const packed_tile &t, int head, int c,
                                          float x[TILE]) {
    if (t.part < a.parts.n) {
        packed_values<TILE>(a.parts.rows[t.part], head, t.row, t.n, c, x);
        return;
    }
    int64_t at = t.row * a.tail.row_stride + head * a.tail.head_stride + c;
#pragma unroll
    for (int i = 0; i < TILE; i++)
        x[i] = i < t.n ? load_any(a.tail.dtype, a.tail.v, at + i * a.tail.row_stride) : 0;
}

static __global__ void __launch_bounds__(THREADS) packed_kernel(packed_job a) {
    __shared__ float q[HEADS][MAX_D], rows[TILE][MAX_D + 1], p[HEADS][TILE], rescale[HEADS], max[HEADS],
        sum[HEADS];
    int split = blockIdx.x, kv_head = blockIdx.y / a.n_subgroups, sub = blockIdx.y % a.n_subgroups;
    int head0 = kv_head * a.group + sub * HEADS, n_heads = min((int)HEADS, a.group - sub * HEADS), d = a.d;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, c = threadIdx.x;
    float acc[HEADS] = {0};
    start_next();
    wait_for_last();
    for (int i = threadIdx.x; i < n_heads * d; i += THREADS)
        q[i / d][i % d] = load_any(a.dtype, a.q, (int64_t)head0 * d + i);
    if (c < HEADS) max[c] = -CUDART_INF_F, sum[c] = 0;
    int64_t from = a.n_tiles * split / a.n_splits, to = a.n_tiles * (split + 1) / a.n_splits;
    for (int64_t index = from; index < to; index++) {
        packed_tile t = tile_at(a, index);
        bool given = a.given && t.part < a.parts.n;
        __syncthreads();
        for (int i = threadIdx.x; i < TILE * d && !given; i += THREADS) {
            int row = i % TILE, channel = i / TILE;
            rows[row][channel] = row < t.n ? key_at(a, t, kv_head, row, channel) : 0;
        }
        __syncthreads();
        if (warp < n_heads) { /* a warp a head, a lane a row */
            int64_t at = (head0 + warp) * a.stride + t.at + lane;
            bool valid = lane < t.n;
            float s = valid && given ? a.scores[at] : 0;
            for (int i = 0; i < d && !given; i++) s += q[warp][i] * rows[lane][i];
            if (!given) s *= a.scale;
            if (a.scores && !a.given && valid) a.scores[at] = s;
            if (!valid || (a.min_score && t.part < a.parts.n && s < a.min_score[head0 + warp]))
                s = -CUDART_INF_F;
            else if (given && a.weights) /* a weight of 0 counts for nothing */
                s = logf(s) + (a.lse_parts ? a.lse_parts[head0 + warp] : 0);
            float top = fmaxf(s, max[warp]);
            top = warp_max(top);
            float base = top == -CUDART_INF_F ? 0 : top, w = expf(s - base), scale = expf(max[warp] - base);
            p[warp][lane] = w;
            w = warp_sum(w);
            __syncwarp();
            if (lane == 0) {
                sum[warp] = sum[warp] * scale + w;
                max[warp] = top;
                rescale[warp] = scale;
            }
        }
        if (!a.mixes) continue;
        __syncthreads();
        if (c < d) {
            float value[TILE];
            values_at(a, t, kv_head, c, value);
#pragma unroll
            for (int h = 0; h < HEADS; h++) {
                if (h >= n_heads) break;
                acc[h] *= rescale[h];
#pragma unroll
                for (int i = 0; i < TILE; i++) acc[h] += p[h][i] * value[i];
            }
        }
    }
    __syncthreads();
    for (int h = 0; h < HEADS; h++) {
        if (h >= n_heads) break;
        float *out = a.partial + ((int64_t)split * a.n_heads + head0 + h) * (d + 2);
        if (c == 0) out[0] = max[h], out[1] = sum[h];
        if (c < d) out[2 + c] = acc[h];
    }
}

static __global__ void packed_weights_kernel(packed_job a, int64_t n) {
    float lse = a.partial[(int64_t)blockIdx.y * (a.d + 2)];
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    float *x = a.scores + blockIdx.y * a.stride + i;
    if (i < n) *x = expf(*x - lse);
}

/* Parts [first, first + n) into the job, and the tail after the last; splits of that launch. */
static int take_parts(const sac_stream *s, packed_job *j, const sac_packed_rows *parts, int n,
                      const sac_kv_view *tail, int64_t problems) {
    j->parts.n = n;
    j->n_tiles = 0;
    j->tail = tail ? *tail : sac_kv_view{};
    for (int i = 0; i < n; i++) {
        j->parts.rows[i] = parts[i];
        j->n_tiles += ceil_div(parts[i].n, TILE);
    }
    j->n_tiles += ceil_div(j->tail.n_rows, TILE);
    int64_t splits = min_of(ceil_div(j->n_tiles, 4), ceil_div(4 * s->device->n_processors, problems));
    return (int)max_of(1, min_of(splits, MAX_SPLITS));
}

/* A kernel takes so many parts; more go in launches one after the other, whose splits are joined at the end.
 */
static sac_status run(const sac_stream *s, packed_job *j, const sac_packed_rows *parts, int n_parts,
                      const sac_kv_view *tail, int n_kv_heads, void *o, float *lse) {
    size_t n_bytes;
    float *partial = (float *)scratch_rest(s, &n_bytes);
    j->group = j->n_heads / n_kv_heads;
    j->n_subgroups = (int)ceil_div(j->group, HEADS);
    int64_t problems = (int64_t)n_kv_heads * j->n_subgroups, all_splits = 0,
            step = (int64_t)j->n_heads * (j->d + 2);
    if (problems > 65535 || j->d > MAX_D) return SAC_UNSUPPORTED;
    for (int i = 0; i == 0 || i < n_parts; i += PACKED_MAX_PARTS) {
        int n = (int)min_of(n_parts - i, PACKED_MAX_PARTS);
        all_splits += take_parts(s, j, parts + i, n, i + n == n_parts ? tail : NULL, problems);
    }
    if ((size_t)(all_splits * step) * sizeof(float) > n_bytes) return SAC_UNSUPPORTED;
    j->first = all_splits = 0;
    for (int i = 0; i == 0 || i < n_parts; i += PACKED_MAX_PARTS) {
        int n = (int)min_of(n_parts - i, PACKED_MAX_PARTS);
        j->n_splits = take_parts(s, j, parts + i, n, i + n == n_parts ? tail : NULL, problems);
        j->partial = partial + all_splits * step;
        SAC_TRY(
            launch(s, early({dim3((unsigned)j->n_splits, (unsigned)problems), THREADS}), packed_kernel, *j));
        all_splits += j->n_splits;
        for (int p = 0; p < n; p++) j->first += parts[i + p].n;
    }
    j->partial = partial;
    return launch_packed_join(s, packed_join{partial, o, lse, j->dtype, (int)all_splits, j->n_heads, j->d});
}

extern "C" sac_status sac_cuda_packed_attention(const sac_stream *s, const sac_packed_attention_args *a) {
    packed_job j = {};
    if (a->n_parts < 1) return SAC_UNSUPPORTED;
    j.scores = a->scores, j.q = a->q, j.min_score = a->min_score, j.stride = a->stride;
    j.n_heads = a->n_heads, j.d = a->parts[0].head_dim, j.scale = a->scale, j.dtype = SAC_DTYPE_F32;
    j.given = a->scores && a->o, j.weights = a->weights, j.mixes = a->o != NULL;
    SAC_TRY(run(s, &j, a->parts, a->n_parts, NULL, a->parts[0].n_heads, a->o, a->lse));
    if (a->weights && !a->o && j.first)
        return launch(s, {dim3((unsigned)ceil_div(j.first, 256), (unsigned)a->n_heads), 256},
                      packed_weights_kernel, j, j.first);
    return SAC_OK;
}

extern "C" sac_status sac_cuda_packed_step_any(const sac_stream *s, const sac_packed_step_args *a) {
    packed_job j = {};
    if (!is_float(a->q.dtype) || !is_float(a->tail.dtype)) return SAC_UNSUPPORTED;
    j.q = a->q.data, j.n_heads = a->n_heads, j.d = a->tail.head_dim, j.scale = a->scale;
    j.dtype = a->q.dtype, j.mixes = true;
    j.given = j.weights = a->weights != NULL, j.scores = (float *)a->weights, j.stride = a->stride;
    j.min_score = a->least, j.lse_parts = a->lse_parts;
    return run(s, &j, a->parts, a->n_parts, &a->tail, a->tail.n_heads, a->q.data, a->lse);
}

} // namespace sac::packed
